#include "engine/spmd/passes/block_uses.h"

#include <algorithm>

#include "engine/spmd/instruction_uses.h"

namespace mtf {

BlockUses::Places::Places(size_t values, const std::vector<std::pair<ValueId, size_t>>& uses)
    : ends_(values), places_(uses.size()) {
  for (const auto& [root, place] : uses) ++ends_[static_cast<size_t>(root)];
  size_t before = 0;
  for (size_t& end : ends_) before += std::exchange(end, before);  // now where the places of a root begin
  for (const auto& [root, place] : uses) places_[ends_[static_cast<size_t>(root)]++] = place;
}

std::span<const size_t> BlockUses::Places::of(ValueId root) const {
  const auto at = static_cast<size_t>(root);
  const size_t begin = at == 0 ? 0 : ends_[at - 1];
  return {places_.data() + begin, places_.data() + ends_[at]};
}

BlockUses::BlockUses(const Program& program, const std::vector<Instruction>& block)
    : program_(program),
      separators_(block.size()),
      made_(program.values.size(), kNowhere),
      last_read_(program.values.size(), kNowhere),
      copied_to_(program.values.size(), kNoValue) {
  std::vector<std::pair<ValueId, size_t>> read, written;
  int separators = 0;
  for (size_t i = 0; i < block.size(); ++i) {
    const Instruction& instruction = block[i];
    separators_[i] = separators;
    separators +=
        instruction.is_collective() || instruction.is<action::Loop>() || instruction.is<action::Done>();
    for_each_read(instruction, [&](ValueId id) {
      const ValueId root = program.root(id);
      last_read_[root] = static_cast<ptrdiff_t>(i);
      read.emplace_back(root, i);
    });
    for_each_written(instruction, [&](ValueId id) {
      const ValueId root = program.root(id);
      if (made_[root] == kNowhere) made_[root] = static_cast<ptrdiff_t>(i);
      written.emplace_back(root, i);
    });
    if (instruction.is<action::Copy>()) copied_to_[instruction.inputs[0]] = instruction.outputs[0];
  }
  written_.emplace(program.values.size(), written);
  readers_.emplace(program.values.size(), read);
  for (const auto& [name, id] : program.outputs) outputs_.insert(program.root(id));
}

std::optional<size_t> BlockUses::maker(ValueId id) const {
  const ptrdiff_t place = made_[program_.root(id)];
  return place == kNowhere ? std::nullopt : std::optional(static_cast<size_t>(place));
}

std::span<const size_t> BlockUses::readers(ValueId id) const { return readers_->of(program_.root(id)); }

bool BlockUses::is_written(const std::vector<ValueId>& ids, size_t first, size_t second) const {
  return std::ranges::any_of(ids, [&](ValueId id) {
    return std::ranges::any_of(written_->of(program_.root(id)),
                               [&](size_t at) { return first < at && at < second; });
  });
}

bool BlockUses::may_die(ValueId id) const {
  const ValueId root = program_.root(id);
  return program_.values[root].storage == Value::Storage::kTemporary && made_[root] != kNowhere &&
         !outputs_.contains(root);
}

bool BlockUses::dies_at(ValueId id, size_t place) const {
  return may_die(id) && last_read_[program_.root(id)] == static_cast<ptrdiff_t>(place);
}

int64_t BlockUses::prolonged_bytes(const std::vector<ValueId>& ids, size_t place) const {
  int64_t bytes = 0;
  std::unordered_set<ValueId> counted;
  for (ValueId id : ids) {
    const ValueId root = program_.root(id);
    if (may_die(root) && last_read_[root] < static_cast<ptrdiff_t>(place) && counted.insert(root).second)
      bytes += program_.local_bytes(root);
  }
  return bytes;
}

void BlockUses::move(const std::vector<ValueId>& operands, const std::vector<ValueId>& results,
                     size_t place) {
  for (ValueId id : operands) {
    ptrdiff_t& last = last_read_[program_.root(id)];
    last = std::max(last, static_cast<ptrdiff_t>(place));
  }
  for (ValueId id : results) made_[program_.root(id)] = static_cast<ptrdiff_t>(place);
}

}  // namespace mtf
