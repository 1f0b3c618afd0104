#include "engine/spmd/passes/fused_instruction.h"

#include <unordered_map>
#include <unordered_set>

#include "engine/ops/fused_elementwise.h"

namespace mtf {

std::vector<ValueId> operands_of(const std::vector<const Instruction*>& members) {
  std::unordered_set<ValueId> known;
  for (const Instruction* member : members) known.insert(member->outputs[0]);
  std::vector<ValueId> result;
  for (const Instruction* member : members) {
    for (ValueId id : member->inputs) {
      if (known.insert(id).second) result.push_back(id);
    }
  }
  return result;
}

Instruction fused_instruction(const std::vector<const Instruction*>& members,
                              const std::vector<FusionResult>& results) {
  Instruction fused = *members.back();
  fused.inputs = operands_of(members);
  std::unordered_map<ValueId, int> numbers;
  for (ValueId id : fused.inputs) numbers.emplace(id, static_cast<int>(numbers.size()));
  Tensors inputs(fused.inputs.size());
  std::vector<FusedElementwise::Step> steps;
  for (const Instruction* member : members) {
    FusedElementwise::Step step{member->as<action::Run>()->operation, {}};
    for (size_t i = 0; i < member->inputs.size(); ++i) {
      const int number = numbers.at(member->inputs[i]);
      step.operands.push_back(number);
      if (number < static_cast<int>(inputs.size()))
        inputs[static_cast<size_t>(number)] = member->operation()->input(static_cast<int>(i));
    }
    steps.push_back(std::move(step));
    numbers.emplace(member->outputs[0], static_cast<int>(numbers.size()));
  }
  fused.outputs.clear();
  std::vector<FusedElementwise::Result> made;
  for (const FusionResult& result : results) {
    fused.outputs.push_back(result.id);
    const auto found = numbers.find(result.overwritten);
    made.push_back(
        {numbers.at(result.id), found == numbers.end() ? std::nullopt : std::optional(found->second)});
  }
  fused.action = action::Run{std::make_shared<FusedElementwise>(inputs, std::move(steps), std::move(made))};
  return fused;
}

}  // namespace mtf
