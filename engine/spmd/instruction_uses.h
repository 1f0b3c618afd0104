// Which values instructions read and write.
#pragma once

#include <unordered_map>
#include <vector>

#include "engine/spmd/program.h"

namespace mtf {

/// Which values an instruction, its body included, reads and writes.
std::vector<ValueId> reads(const Instruction& instruction);
std::vector<ValueId> writes(const Instruction& instruction);
/// Number of readers of each value: instructions, views and program outputs.
std::unordered_map<ValueId, int> count_uses(const Program& program);

}  // namespace mtf
