#include "engine/base/instruction_set.h"

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <algorithm>

#include "engine/base/check.h"

namespace mtf {
namespace internal {

std::atomic<InstructionSet> current_instruction_set = available_instruction_sets().front();

}  // namespace internal

namespace {

#if MTF_HAS_INSTRUCTION_SETS
/// Asks the system for the registers of AMX, for all threads of this process: they are saved only for those who ask. Returns
/// false if the system does not give them, or the machine lacks what InstructionSet::kAmx has.
bool may_use_amx() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM and XFEATURE_XTILEDATA
  return __builtin_cpu_supports("x86-64-v4") && __builtin_cpu_supports("avx512bf16") &&
         __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("amx-tile") &&
         __builtin_cpu_supports("amx-bf16") && __builtin_cpu_supports("amx-int8") &&
         syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}
#endif

}  // namespace

std::string_view name_of(InstructionSet set) {
  switch (set) {
    case InstructionSet::kAmx:
      return "amx";
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
    if (may_use_amx()) sets.push_back(InstructionSet::kAmx);
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
