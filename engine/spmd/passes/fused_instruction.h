// Makes one instruction of a fusion of elementwise instructions.
#pragma once

#include <vector>

#include "engine/spmd/program.h"

namespace mtf {

/// The values that the instructions read and do not make themselves, each once, in the order of their first
/// use.
std::vector<ValueId> operands_of(const std::vector<const Instruction*>& members);

/// A result of a member and the operand whose memory it may take over, or kNoValue.
struct FusionResult {
  ValueId id = kNoValue;
  ValueId overwritten = kNoValue;
};

/// An instruction that computes what all members compute.
Instruction fused_instruction(const std::vector<const Instruction*>& members,
                              const std::vector<FusionResult>& results);

}  // namespace mtf
