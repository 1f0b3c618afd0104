// One instruction in the place of a fusion of elementwise ones.
#pragma once

#include <vector>

#include "engine/spmd/program.h"

namespace mtf {

/// What the instructions, in their order, read and none of them makes: each value once.
std::vector<ValueId> operands_of(const std::vector<const Instruction*>& members);

/// What a member makes, and the operand whose memory it may take; kNoValue: none.
struct FusionResult {
  ValueId id = kNoValue;
  ValueId overwritten = kNoValue;
};

/// Does what the members do.
Instruction fused_instruction(const std::vector<const Instruction*>& members,
                              const std::vector<FusionResult>& results);

}  // namespace mtf
