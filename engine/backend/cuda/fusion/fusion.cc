#include "engine/backend/cuda/fusion/fusion.h"

#include <algorithm>

#include "engine/backend/cuda/fusion/fusion_steps.h"
#include "engine/base/check.h"
#include "engine/graph/structural.h"
#include "engine/ops/binary.h"
#include "engine/ops/broadcast.h"
#include "engine/ops/cast.h"
#include "engine/ops/random.h"
#include "engine/ops/unary.h"

namespace mtf::cuda {
namespace {

static_assert(FusedElementwise::kMostInputs <= kMostFusionInputs &&
              FusedElementwise::kMostResults <= kMostFusionOutputs &&
              FusedElementwise::kMostSteps <= kMostFusionParameters);

using Step = Fusion::Step;

/// The step of an operation, without its operands, and its parameter.
std::pair<Step, std::optional<double>> step_of(const Operation& operation) {
  using Kind = Step::Kind;
  const auto step = [](Kind kind, auto function) {
    return Step{kind, static_cast<int>(function), {}, {}, -1, -1};
  };
  if (const auto* unary = dynamic_cast<const Unary*>(&operation))
    return {step(Kind::kUnary, unary->function), unary->parameter};
  if (const auto* gradient = dynamic_cast<const UnaryGradient*>(&operation))
    return {step(Kind::kGradient, gradient->function), gradient->parameter};
  if (const auto* binary = dynamic_cast<const Binary*>(&operation))
    return {step(Kind::kBinary, binary->function), {}};
  if (dynamic_cast<const Where*>(&operation)) return {step(Kind::kWhere, 0), {}};
  if (dynamic_cast<const Cast*>(&operation)) return {step(Kind::kCast, 0), {}};
  if (dynamic_cast<const AddN*>(&operation)) return {step(Kind::kSum, 0), {}};
  if (dynamic_cast<const Broadcast*>(&operation)) return {step(Kind::kCopy, 0), {}};
  if (const auto* constant = dynamic_cast<const Constant*>(&operation))
    return {step(Kind::kConstant, 0), constant->value};
  const auto* dropout = dynamic_cast<const Dropout*>(&operation);
  MTF_CHECK(dropout != nullptr, "{} is no step of a fusion", operation.name());
  const bool scales = is_floating(operation.kernel_dtype());
  return {step(Kind::kDropout, 0), scales ? 1 / (1 - dropout->rate) : 1.0};
}

}  // namespace

Fusion::Fusion(const FusedElementwise& operation, std::vector<bool> walks) : walks(std::move(walks)) {
  for (const Tensor& input : operation.inputs()) inputs.push_back(input.dtype());
  int parameters = 0, dropouts = 0;
  for (const FusedElementwise::Step& made_of : operation.steps()) {
    auto [step, parameter] = step_of(*made_of.operation);
    step.result = made_of.operation->outputs()[0].dtype;
    step.operands = made_of.operands;
    if (parameter) step.parameter = parameters++;
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
    if (const std::optional<double> parameter = step_of(*step.operation).second)
      parameters.push_back(*parameter);
  }
  return parameters;
}

}  // namespace mtf::cuda
