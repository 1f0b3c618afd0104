// AMX on machines without it: the instructions of engine/backend/cpu/contractions/amx_registers.h are computed by a handler of
// SIGILL, as Intel's manual describes them.
#pragma once

#include "engine/base/instruction_set.h"

namespace mtf::testing {

/// Makes the instructions work for the rest of the process, if the machine lacks them. Returns false where that needs what the
/// machine lacks, too (AVX512-BF16, which every machine with AMX has).
bool emulate_amx();

/// Uses the kernels of AMX until the end of the scope, or those from before where emulate_amx() returns false.
class WithAmx {
 public:
  WithAmx() : before_(instruction_set()), works_(emulate_amx()) {
    if (works_) internal::current_instruction_set = InstructionSet::kAmx;  // also where it is not available
  }
  ~WithAmx() { set_instruction_set(before_); }
  WithAmx(const WithAmx&) = delete;
  WithAmx& operator=(const WithAmx&) = delete;

  bool works() const { return works_; }

 private:
  const InstructionSet before_;
  const bool works_;
};

}  // namespace mtf::testing
