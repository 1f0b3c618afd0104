#include <algorithm>
#include <unordered_set>

#include "engine/spmd/instruction_uses.h"
#include "engine/spmd/passes/passes.h"
#include "engine/spmd/passes/rewrite_blocks.h"

namespace mtf {
namespace {

void split_block(const Program& program, std::vector<Instruction>& block) {
  std::vector<Instruction> result;
  const auto collectives = std::ranges::count_if(block, &Instruction::is_collective);
  result.reserve(block.size() + static_cast<size_t>(collectives));
  std::unordered_set<ValueId> waiting;
  const auto wait = [&](const std::vector<ValueId>& ids) {
    std::vector<ValueId> awaited;
    for (ValueId id : ids) {
      if (waiting.erase(id)) awaited.push_back(id);
    }
    if (!awaited.empty()) result.push_back({action::Done{}, std::move(awaited)});
  };
  std::vector<ValueId> used;
  for (Instruction& instruction : block) {
    used.clear();
    for_each_read(instruction, [&](ValueId id) { used.push_back(program.root(id)); });
    wait(used);
    if (auto* communicate = instruction.as<action::Communicate>()) {
      communicate->started = true;
      waiting.insert(instruction.outputs.begin(), instruction.outputs.end());
    }
    result.push_back(std::move(instruction));
  }
  std::vector<ValueId> rest(waiting.begin(), waiting.end());
  std::sort(rest.begin(), rest.end());
  wait(rest);
  block = std::move(result);
}

}  // namespace

Program split_collectives(Program program) {
  for_each_block(program.instructions, [&](auto& block) { split_block(program, block); });
  return program;
}

}  // namespace mtf
