// The instruction set that hot loops of the CPU use, one for the whole process. It is the best one of the
// machine until `run.instruction_set` chooses another, before the first kernel runs.
//
//   set_instruction_set(InstructionSet::kAvx2);  // the same bits on every machine that has AVX2
#pragma once

#include <atomic>
#include <string_view>
#include <vector>

// Other compilers than GCC build the portable loops only, and so does a build that defines this as 0.
#ifndef MTF_HAS_INSTRUCTION_SETS
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define MTF_HAS_INSTRUCTION_SETS 1
#else
#define MTF_HAS_INSTRUCTION_SETS 0
#endif
#endif

namespace mtf {

/// Levels x86-64, x86-64-v3 and x86-64-v4, and the last one with AMX (BF16 and INT8). A machine that has one of them has those
/// before it.
enum class InstructionSet { kPortable, kAvx2, kAvx512, kAmx };

/// "portable", "avx2", "avx512" or "amx".
std::string_view name_of(InstructionSet set);

/// The instruction sets that both this program and the machine have, the best one first.
const std::vector<InstructionSet>& available_instruction_sets();
bool is_available(InstructionSet set);
/// True if the machine has AVX512-BF16, which AVX-512 does not imply, and AMX does.
bool has_avx512_bf16();

namespace internal {
extern std::atomic<InstructionSet> current_instruction_set;
}

inline InstructionSet instruction_set() {
  return internal::current_instruction_set.load(std::memory_order_relaxed);
}
/// `set` must be available, and no kernel may be running.
void set_instruction_set(InstructionSet set);

}  // namespace mtf
