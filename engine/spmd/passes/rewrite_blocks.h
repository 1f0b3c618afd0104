// Helpers of passes, which rewrite the blocks of a program, bodies of loops first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/spmd/program.h"

namespace mtf {

/// Applies `rewrite` to every block, bodies of loops first.
template <class Rewrite>
void for_each_block(std::vector<Instruction>& block, const Rewrite& rewrite) {
  for (Instruction& instruction : block) {
    if (auto* loop = instruction.as<action::Loop>()) for_each_block(loop->body, rewrite);
  }
  rewrite(block);
}

/// By value: the value that takes its place.
using ValueMap = std::unordered_map<ValueId, ValueId>;

inline void replace(ValueId& id, const ValueMap& replaced) {
  if (const auto found = replaced.find(id); found != replaced.end()) id = found->second;
}

/// Lets all readers of the replaced values (instructions, views, program outputs) read those that take their place.
inline void replace_values(Program& program, const ValueMap& replaced) {
  if (replaced.empty()) return;
  for_each_block(program.instructions, [&](std::vector<Instruction>& block) {
    for (Instruction& instruction : block) {
      for (ValueId& id : instruction.inputs) replace(id, replaced);
      replace(instruction.guard, replaced);
    }
  });
  for (Value& value : program.values) replace(value.alias, replaced);
  for (auto& [name, id] : program.outputs) replace(id, replaced);
}

inline bool intersects(const std::vector<ValueId>& ids, const std::unordered_set<ValueId>& set) {
  return std::any_of(ids.begin(), ids.end(), [&set](ValueId id) { return set.contains(id); });
}

/// Sorts the instructions by their keys; the sort is stable.
template <class Key>
void reorder(std::vector<Instruction>& block, const std::vector<Key>& keys) {
  std::vector<size_t> order(block.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&keys](size_t i) -> const Key& { return keys[i]; });
  std::vector<Instruction> result;
  result.reserve(block.size());
  for (const size_t i : order) result.push_back(std::move(block[i]));
  block = std::move(result);
}

}  // namespace mtf
