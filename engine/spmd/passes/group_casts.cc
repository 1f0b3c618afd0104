#include <algorithm>
#include <map>
#include <unordered_map>
#include <vector>

#include "engine/ops/cast.h"
#include "engine/spmd/instruction_uses.h"
#include "engine/spmd/passes/grouped_instruction.h"
#include "engine/spmd/passes/passes.h"
#include "engine/spmd/passes/rewrite_blocks.h"

namespace mtf {
namespace {

bool casts_variable(const Program& program, const Instruction& instruction) {
  if (!instruction.is<action::Run>() || instruction.guard != kNoValue ||
      instruction.provenance.phase != Phase::kForward ||
      !dynamic_cast<const Cast*>(instruction.operation())) {
    return false;
  }
  const Value& from = program.values[program.root(instruction.inputs[0])];
  return from.storage == Value::Storage::kVariable && from.dtype == DType::kFloat32 &&
         program.values[instruction.outputs[0]].dtype == DType::kBFloat16;
}

/// What the instructions of a block do with the casts of variables in it.
class CastUses {
 public:
  CastUses(const Program& program, const std::vector<Instruction>& block) : program_(program) {
    for (const Instruction& instruction : block) {
      if (!casts_variable(program, instruction)) continue;
      readers_.try_emplace(program.root(instruction.outputs[0]));
      written_.try_emplace(program.root(instruction.inputs[0]));
    }
    if (readers_.empty()) return;
    for (size_t i = 0; i < block.size(); ++i) {
      const Instruction& instruction = block[i];
      for_each_read(instruction, [&](ValueId id) {
        const auto found = readers_.find(program.root(id));
        if (found == readers_.end()) return;
        found->second.in_backward |= instruction.provenance.phase == Phase::kBackward;
        found->second.is_sent |= instruction.is_collective();
      });
      for_each_written(instruction, [&](ValueId id) {
        if (const auto found = written_.find(program.root(id)); found != written_.end())
          found->second.push_back(i);
      });
    }
  }

  /// True if the backward pass reads the result of the cast, and nothing sends it.
  bool is_kept(const Instruction& cast) const {
    const Readers& readers = readers_.at(program_.root(cast.outputs[0]));
    return readers.in_backward && !readers.is_sent;
  }
  /// True if an instruction strictly between the places writes the variable.
  bool is_written(const Instruction& cast, size_t first, size_t second) const {
    const std::vector<size_t>& places = written_.at(program_.root(cast.inputs[0]));
    const auto next = std::ranges::upper_bound(places, first);
    return next != places.end() && *next < second;
  }

 private:
  struct Readers {
    bool in_backward = false, is_sent = false;
  };
  const Program& program_;
  std::unordered_map<ValueId, Readers> readers_;              ///< by root of the result of a cast
  std::unordered_map<ValueId, std::vector<size_t>> written_;  ///< places that write a variable, ascending
};

void group(const Program& program, std::vector<Instruction>& block) {
  const CastUses uses(program, block);
  std::map<Copies, std::vector<size_t>> groups;  // by the copies of the results
  for (size_t i = 0; i < block.size(); ++i) {
    if (!casts_variable(program, block[i]) || !uses.is_kept(block[i])) continue;
    std::vector<size_t>& members = groups[program.values[block[i].outputs[0]].copies()];
    if (members.empty() || !uses.is_written(block[i], members[0], i)) members.push_back(i);
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
