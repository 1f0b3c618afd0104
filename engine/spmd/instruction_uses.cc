#include "engine/spmd/instruction_uses.h"

namespace mtf {
namespace {

void collect(const Instruction& instruction, std::vector<ValueId>& ids, bool outputs) {
  const std::vector<ValueId>& own = outputs ? instruction.outputs : instruction.inputs;
  ids.insert(ids.end(), own.begin(), own.end());
  if (!outputs) {
    if (const auto* done = instruction.as<action::Done>())
      ids.insert(ids.end(), done->kept.begin(), done->kept.end());
    if (instruction.guard != kNoValue) ids.push_back(instruction.guard);
  }
  for (const Instruction& inner : instruction.body()) collect(inner, ids, outputs);
}

}  // namespace

std::vector<ValueId> reads(const Instruction& instruction) {
  std::vector<ValueId> ids;
  collect(instruction, ids, false);
  return ids;
}

std::vector<ValueId> writes(const Instruction& instruction) {
  std::vector<ValueId> ids;
  collect(instruction, ids, true);
  return ids;
}

std::unordered_map<ValueId, int> count_uses(const Program& program) {
  std::unordered_map<ValueId, int> uses;
  for (const Instruction& instruction : program.instructions) {
    for (ValueId id : reads(instruction)) ++uses[id];
  }
  for (const auto& [name, id] : program.outputs) ++uses[id];
  for (const Value& value : program.values) {
    if (value.alias != kNoValue) ++uses[value.alias];
  }
  return uses;
}

}  // namespace mtf
