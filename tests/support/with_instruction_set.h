#pragma once

#include "engine/base/instruction_set.h"

namespace mtf::testing {

/// Uses an instruction set until the end of the scope. It need not be available if its instructions are emulated.
class WithInstructionSet {
 public:
  explicit WithInstructionSet(InstructionSet set) : before_(instruction_set()) {
    internal::current_instruction_set = set;
  }
  ~WithInstructionSet() { internal::current_instruction_set = before_; }
  WithInstructionSet(const WithInstructionSet&) = delete;
  WithInstructionSet& operator=(const WithInstructionSet&) = delete;

 private:
  const InstructionSet before_;
};

}  // namespace mtf::testing
