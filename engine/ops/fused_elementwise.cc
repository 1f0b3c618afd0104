#include "engine/ops/fused_elementwise.h"

#include <fmt/format.h>

namespace mtf {
namespace {

std::vector<OutputInfo> outputs_of(const Tensors& inputs, const std::vector<FusedElementwise::Step>& steps,
                                   const std::vector<FusedElementwise::Result>& results) {
  std::vector<OutputInfo> outputs;
  for (const FusedElementwise::Result& result : results)
    outputs.push_back(steps.at(static_cast<size_t>(result.value) - inputs.size()).operation->outputs()[0]);
  return outputs;
}

}  // namespace

FusedElementwise::FusedElementwise(const Tensors& inputs, std::vector<Step> steps,
                                   std::vector<Result> results)
    : OperationBase(inputs, outputs_of(inputs, steps, results)),
      steps_(std::move(steps)),
      results_(std::move(results)) {}

std::string FusedElementwise::attributes() const {
  std::string text;
  size_t number = inputs().size();
  for (const Step& step : steps_) {
    std::string inside;
    const auto add = [&](const std::string& argument) {
      if (!argument.empty()) inside += (inside.empty() ? "" : ", ") + argument;
    };
    for (int operand : step.operands) add(fmt::format("#{}", operand));
    add(step.operation->attributes());
    text += fmt::format("{}#{} = {}({})", text.empty() ? "" : "; ", number++, step.operation->name(), inside);
  }
  if (results_.size() == 1) return text;
  std::string numbers;
  for (const Result& result : results_)
    numbers += fmt::format("{}#{}", numbers.empty() ? "" : ", ", result.value);
  return text + "; results " + numbers;
}

}  // namespace mtf
