#include "engine/spmd/passes/block_uses.h"

#include <algorithm>

#include "engine/spmd/instruction_uses.h"

namespace mtf {

BlockUses::BlockUses(const Program& program, const std::vector<Instruction>& block)
    : program_(program), separators_(block.size()) {
  int separators = 0;
  for (size_t i = 0; i < block.size(); ++i) {
    const Instruction& instruction = block[i];
    separators_[i] = separators;
    separators +=
        instruction.is_collective() || instruction.is<action::Loop>() || instruction.is<action::Done>();
    for_each_read(instruction, [&](ValueId id) {
      last_read_[program.root(id)] = i;
      readers_[program.root(id)].push_back(i);
    });
    for_each_written(instruction, [&](ValueId id) {
      made_.emplace(program.root(id), i);
      written_[program.root(id)].push_back(i);
    });
    if (instruction.is<action::Copy>()) copied_to_[instruction.inputs[0]] = instruction.outputs[0];
  }
  for (const auto& [name, id] : program.outputs) outputs_.insert(program.root(id));
}

std::optional<size_t> BlockUses::maker(ValueId id) const {
  const auto found = made_.find(program_.root(id));
  return found == made_.end() ? std::nullopt : std::optional(found->second);
}

const std::vector<size_t>& BlockUses::readers(ValueId id) const {
  static const std::vector<size_t> none;
  const auto found = readers_.find(program_.root(id));
  return found == readers_.end() ? none : found->second;
}

ValueId BlockUses::copied_to(ValueId id) const {
  const auto found = copied_to_.find(id);
  return found == copied_to_.end() ? kNoValue : found->second;
}

bool BlockUses::is_written(const std::vector<ValueId>& ids, size_t first, size_t second) const {
  return std::ranges::any_of(ids, [&](ValueId id) {
    const auto found = written_.find(program_.root(id));
    return found != written_.end() &&
           std::ranges::any_of(found->second, [&](size_t at) { return first < at && at < second; });
  });
}

bool BlockUses::may_die(ValueId id) const {
  const ValueId root = program_.root(id);
  return program_.values[root].storage == Value::Storage::kTemporary && made_.contains(root) &&
         !outputs_.contains(root);
}

bool BlockUses::dies_at(ValueId id, size_t place) const {
  const auto last = last_read_.find(program_.root(id));
  return may_die(id) && last != last_read_.end() && last->second == place;
}

int64_t BlockUses::prolonged_bytes(const std::vector<ValueId>& ids, size_t place) const {
  int64_t bytes = 0;
  std::unordered_set<ValueId> counted;
  for (ValueId id : ids) {
    const ValueId root = program_.root(id);
    if (may_die(root) && last_read_.at(root) < place && counted.insert(root).second)
      bytes += program_.local_bytes(root);
  }
  return bytes;
}

void BlockUses::move(const std::vector<ValueId>& operands, const std::vector<ValueId>& results,
                     size_t place) {
  for (ValueId id : operands) {
    size_t& last = last_read_[program_.root(id)];
    last = std::max(last, place);
  }
  for (ValueId id : results) made_[program_.root(id)] = place;
}

}  // namespace mtf
