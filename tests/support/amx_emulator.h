// AMX on machines without it: the instructions of engine/backend/cpu/contractions/amx_registers.h are computed by a handler of
// SIGILL, as Intel's manual describes them.
#pragma once

#include "engine/base/instruction_set.h"
#include "tests/support/with_instruction_set.h"

namespace mtf::testing {

/// Makes the instructions work for the rest of the process, if the machine lacks them. Returns false where that needs what the
/// machine lacks, too (AVX512-BF16, which every machine with AMX has).
bool emulate_amx();

/// Uses the kernels of AMX until the end of the scope, or those from before where emulate_amx() returns false.
class WithAmx {
 public:
  bool works() const { return works_; }

 private:
  const bool works_ = emulate_amx();
  const WithInstructionSet used_{works_ ? InstructionSet::kAmx : instruction_set()};
};

}  // namespace mtf::testing
