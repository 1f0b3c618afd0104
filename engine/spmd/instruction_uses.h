// Lists the values that instructions read and write.
#pragma once

#include <unordered_map>
#include <vector>

#include "engine/spmd/program.h"

namespace mtf {

/// The values that an instruction, including its body, reads and writes.
std::vector<ValueId> reads(const Instruction& instruction);
std::vector<ValueId> writes(const Instruction& instruction);
/// The number of readers of each value: instructions, views and program outputs.
std::unordered_map<ValueId, int> count_uses(const Program& program);

}  // namespace mtf
