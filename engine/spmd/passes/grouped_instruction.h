// Makes the instruction that does what several instructions of one kind do on different tensors: MultiTensor.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/spmd/program.h"

namespace mtf {

/// The instruction that replaces the `members`, which are places in `block`; a single member stays what it is.
Instruction grouped_instruction(const std::vector<Instruction>& block, const std::vector<size_t>& members);

}  // namespace mtf
