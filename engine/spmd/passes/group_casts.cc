#include <algorithm>
#include <map>
#include <vector>

#include "engine/ops/cast.h"
#include "engine/spmd/passes/block_uses.h"
#include "engine/spmd/passes/grouped_instruction.h"
#include "engine/spmd/passes/passes.h"
#include "engine/spmd/passes/rewrite_blocks.h"

namespace mtf {
namespace {

/// True for casts of variables from float32 to bfloat16 whose results the backward pass reads, and nothing sends.
bool is_kept_cast(const Program& program, const std::vector<Instruction>& block, const BlockUses& uses,
                  size_t i) {
  const Instruction& instruction = block[i];
  if (!instruction.is<action::Run>() || instruction.guard != kNoValue ||
      instruction.provenance.phase != Phase::kForward ||
      !dynamic_cast<const Cast*>(instruction.operation())) {
    return false;
  }
  const Value& from = program.values[program.root(instruction.inputs[0])];
  const ValueId output = instruction.outputs[0];
  if (from.storage != Value::Storage::kVariable || from.dtype != DType::kFloat32 ||
      program.values[output].dtype != DType::kBFloat16) {
    return false;
  }
  const std::vector<size_t>& readers = uses.readers(output);
  const auto reads_in_backward = [&](size_t j) { return block[j].provenance.phase == Phase::kBackward; };
  return std::ranges::any_of(readers, reads_in_backward) &&
         std::ranges::none_of(readers, [&](size_t j) { return block[j].is_collective(); });
}

void group(const Program& program, std::vector<Instruction>& block) {
  const BlockUses uses(program, block);
  std::map<Copies, std::vector<size_t>> groups;  // by the copies of the results
  for (size_t i = 0; i < block.size(); ++i) {
    if (!is_kept_cast(program, block, uses, i)) continue;
    std::vector<size_t>& members = groups[program.values[block[i].outputs[0]].copies()];
    if (members.empty() || !uses.is_written(block[i].inputs, members[0], i)) members.push_back(i);
  }
  std::vector<bool> joined(block.size());
  for (const auto& [copies, members] : groups) {
    block[members[0]] = grouped_instruction(block, members);
    for (size_t i : members) joined[i] = i != members[0];
  }
  size_t i = 0;
  std::erase_if(block, [&](const Instruction&) { return joined[i++]; });
}

}  // namespace

Program group_casts(Program program) {
  for_each_block(program.instructions, [&](auto& block) { group(program, block); });
  return program;
}

}  // namespace mtf
