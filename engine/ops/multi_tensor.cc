#include "engine/ops/multi_tensor.h"

#include <fmt/format.h>

namespace mtf {
namespace {

Tensors inputs_of(const MultiTensor::Members& members) {
  Tensors inputs;
  for (const auto& member : members)
    inputs.insert(inputs.end(), member->inputs().begin(), member->inputs().end());
  return inputs;
}

std::vector<OutputInfo> outputs_of(const MultiTensor::Members& members) {
  std::vector<OutputInfo> outputs;
  for (const auto& member : members)
    outputs.insert(outputs.end(), member->outputs().begin(), member->outputs().end());
  return outputs;
}

}  // namespace

MultiTensor::MultiTensor(Members members)
    : OperationBase(inputs_of(members), outputs_of(members)), members_(std::move(members)) {}

std::string MultiTensor::attributes() const {
  return fmt::format("{} {}", members_.size(), members_.front()->name());
}

std::optional<int> MultiTensor::in_place(int output) const {
  int input = 0;
  for (const auto& member : members_) {
    const int outputs = static_cast<int>(member->outputs().size());
    if (output < outputs) {
      const std::optional<int> overwritten = member->in_place(output);
      return overwritten ? std::optional(input + *overwritten) : std::nullopt;
    }
    output -= outputs;
    input += static_cast<int>(member->inputs().size());
  }
  return std::nullopt;
}

}  // namespace mtf
