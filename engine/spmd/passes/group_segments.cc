#include <algorithm>
#include <iterator>
#include <unordered_set>

#include "engine/graph/structural.h"
#include "engine/spmd/instruction_uses.h"
#include "engine/spmd/passes/passes.h"
#include "engine/spmd/passes/rewrite_blocks.h"

namespace mtf {
namespace {

Copies copies_of(const Program& program, const Instruction& instruction) {
  Copies copies;
  for (ValueId id : instruction.inputs) copies.axes |= program.values[id].varies;
  for (ValueId id : instruction.outputs) {
    copies.axes |= program.values[id].varies;
    copies.pin = program.values[id].layout.pin;
  }
  return copies;
}

/// True if the result is a constant that may lie in memory longer than it is used.
bool is_small_constant(const Program& program, const Instruction& instruction) {
  const auto* run = instruction.as<action::Run>();
  return run != nullptr && dynamic_cast<const Constant*>(run->operation.get()) != nullptr &&
         program.local_bytes(instruction.outputs[0]) <= kSharedBytes;
}

/// Reorders block[begin, end): takes small constants, which need nothing, so that they end no segment; then repeatedly takes
/// everything that is ready and varies over the same mesh dimensions as the first pending instruction. What is computed again
/// is not taken before its turn: it would be ready right after the forward pass, and occupy the memory that it is to save.
void group_window(const Program& program, std::vector<Instruction>& block, size_t begin, size_t end) {
  std::vector<Instruction> pending(
      std::make_move_iterator(block.begin() + static_cast<std::ptrdiff_t>(begin)),
      std::make_move_iterator(block.begin() + static_cast<std::ptrdiff_t>(end)));
  std::ranges::stable_partition(
      pending, [&](const Instruction& instruction) { return is_small_constant(program, instruction); });
  size_t out = begin;
  while (!pending.empty()) {
    const Copies copies = copies_of(program, pending.front());
    std::unordered_set<ValueId> unmade;  // results of instructions that were passed over
    std::vector<Instruction> rest;
    for (Instruction& instruction : pending) {
      std::vector<ValueId> used = reads(instruction);
      for (ValueId& id : used) id = program.root(id);
      const bool is_early = instruction.provenance.recomputed && !rest.empty();
      if (copies_of(program, instruction) == copies && !is_early && !intersects(used, unmade)) {
        block[out++] = std::move(instruction);
      } else {
        for (ValueId id : instruction.outputs) unmade.insert(program.root(id));
        rest.push_back(std::move(instruction));
      }
    }
    pending = std::move(rest);
  }
}

}  // namespace

Program group_segments(Program program) {
  for_each_block(program.instructions, [&](std::vector<Instruction>& block) {
    for (size_t begin = 0; begin < block.size();) {
      size_t end = begin;
      while (end < block.size() && block[end].is<action::Run>()) ++end;
      group_window(program, block, begin, end);
      begin = end + 1;
    }
  });
  return program;
}

}  // namespace mtf
