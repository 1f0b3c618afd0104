#include "engine/backend/cuda/fusion/fusion.h"

#include <algorithm>

#include "engine/backend/cuda/fusion/fusion_steps.h"
#include "engine/base/check.h"

namespace mtf::cuda {
namespace {

static_assert(FusedElementwise::kMostInputs <= kMostFusionInputs &&
              FusedElementwise::kMostResults <= kMostFusionOutputs &&
              FusedElementwise::kMostSteps <= kMostFusionParameters);

using Step = Fusion::Step;

ElementwiseStep step_of(const Operation& operation) {
  const std::optional<ElementwiseStep> step = operation.elementwise_step();
  MTF_CHECK(step.has_value(), "{} is no step of a fusion", operation.name());
  return *step;
}

}  // namespace

Fusion::Fusion(const FusedElementwise& operation, std::vector<bool> walks) : walks(std::move(walks)) {
  for (const Tensor& input : operation.inputs()) inputs.push_back(input.dtype());
  int parameters = 0, dropouts = 0;
  for (const FusedElementwise::Step& made_of : operation.steps()) {
    const ElementwiseStep made = step_of(*made_of.operation);
    Step step;
    step.kind = made.kind;
    step.function = made.function;
    step.result = made_of.operation->outputs()[0].dtype;
    step.operands = made_of.operands;
    if (made.parameter) step.parameter = parameters++;
    if (step.kind == Step::Kind::kDropout) step.dropout = dropouts++;
    steps.push_back(std::move(step));
  }
  for (const FusedElementwise::Result& result : operation.results()) results.push_back(result.value);
}

DType Fusion::dtype(int value) const {
  const auto index = static_cast<size_t>(value);
  return index < inputs.size() ? inputs[index] : steps[index - inputs.size()].result;
}

int Fusion::elements() const {
  size_t widest = 1;
  for (int result : results) widest = std::max(widest, size_of(dtype(result)));
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!walks[i]) widest = std::max(widest, size_of(inputs[i]));
  }
  const int count = kPackBytes / static_cast<int>(widest);
  return dropouts() > 0 ? std::max(4, count) : count;  // whole Philox blocks
}

int Fusion::dropouts() const {
  return static_cast<int>(std::ranges::count_if(steps, [](const Step& step) { return step.dropout >= 0; }));
}

std::vector<double> fusion_parameters(const FusedElementwise& operation) {
  std::vector<double> parameters;
  for (const FusedElementwise::Step& step : operation.steps()) {
    if (const std::optional<double> parameter = step_of(*step.operation).parameter)
      parameters.push_back(*parameter);
  }
  return parameters;
}

}  // namespace mtf::cuda
