#include "engine/spmd/instruction_uses.h"

namespace mtf {

std::vector<ValueId> reads(const Instruction& instruction) {
  std::vector<ValueId> ids;
  for_each_read(instruction, [&](ValueId id) { ids.push_back(id); });
  return ids;
}

std::vector<ValueId> writes(const Instruction& instruction) {
  std::vector<ValueId> ids;
  for_each_written(instruction, [&](ValueId id) { ids.push_back(id); });
  return ids;
}

std::vector<int> count_uses(const Program& program) {
  std::vector<int> uses(program.values.size());
  for (const Instruction& instruction : program.instructions) {
    for_each_read(instruction, [&](ValueId id) { ++uses[id]; });
  }
  for (const auto& [name, id] : program.outputs) ++uses[id];
  for (const Value& value : program.values) {
    if (value.alias != kNoValue) ++uses[value.alias];
  }
  return uses;
}

}  // namespace mtf
