// Lists the values that instructions read and write.
#pragma once

#include <vector>

#include "engine/spmd/program.h"

namespace mtf {

/// Calls `visit` with each value that an instruction, including its body, reads.
template <class Visit>
void for_each_read(const Instruction& instruction, const Visit& visit) {
  for (const ValueId id : instruction.inputs) visit(id);
  if (const auto* done = instruction.as<action::Done>()) {
    for (const ValueId id : done->kept) visit(id);
  }
  if (instruction.guard != kNoValue) visit(instruction.guard);
  for (const Instruction& inner : instruction.body()) for_each_read(inner, visit);
}
/// The same for those that it writes.
template <class Visit>
void for_each_written(const Instruction& instruction, const Visit& visit) {
  for (const ValueId id : instruction.outputs) visit(id);
  for (const Instruction& inner : instruction.body()) for_each_written(inner, visit);
}
/// The values that an instruction, including its body, reads and writes.
std::vector<ValueId> reads(const Instruction& instruction);
std::vector<ValueId> writes(const Instruction& instruction);
/// The number of readers of each value, by value id: instructions, views and program outputs.
std::vector<int> count_uses(const Program& program);

}  // namespace mtf
