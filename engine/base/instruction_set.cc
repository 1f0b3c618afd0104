#include "engine/base/instruction_set.h"

#include <algorithm>

#include "engine/base/check.h"

namespace mtf {
namespace internal {

std::atomic<InstructionSet> current_instruction_set = available_instruction_sets().front();

}  // namespace internal

std::string_view name_of(InstructionSet set) {
  switch (set) {
    case InstructionSet::kAvx512:
      return "avx512";
    case InstructionSet::kAvx2:
      return "avx2";
    case InstructionSet::kPortable:
      break;
  }
  return "portable";
}

const std::vector<InstructionSet>& available_instruction_sets() {
  static const std::vector<InstructionSet> available = [] {
    std::vector<InstructionSet> sets;
#if MTF_HAS_INSTRUCTION_SETS
    __builtin_cpu_init();
    if (__builtin_cpu_supports("x86-64-v4")) sets.push_back(InstructionSet::kAvx512);
    if (__builtin_cpu_supports("x86-64-v3")) sets.push_back(InstructionSet::kAvx2);
#endif
    sets.push_back(InstructionSet::kPortable);
    return sets;
  }();
  return available;
}

bool is_available(InstructionSet set) { return std::ranges::count(available_instruction_sets(), set) > 0; }

bool has_avx512_bf16() {
#if MTF_HAS_INSTRUCTION_SETS
  return is_available(InstructionSet::kAvx512) && __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

void set_instruction_set(InstructionSet set) {
  MTF_CHECK(is_available(set), "this machine has no {}", name_of(set));
  internal::current_instruction_set.store(set, std::memory_order_relaxed);
}

}  // namespace mtf
