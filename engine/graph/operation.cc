#include "engine/graph/operation.h"

#include <fmt/format.h>

#include "engine/base/check.h"
#include "engine/graph/graph.h"

namespace mtf {

Tensors Operation::gradient(const Tensors&) const { return Tensors(inputs_.size()); }

ShardingRule Operation::sharding_rule(const ShardingRequest& request) const {
  return shard_by_name(*this, request);
}

Tensors Operation::expand(const Tensors&, const LayoutMap&) const {
  MTF_CHECK(false, "{} has no expansion", name());
  return {};
}

Cost Operation::cost(const std::vector<Shape>& inputs, const std::vector<Shape>& outputs) const {
  Cost cost;
  for (size_t i = 0; i < inputs.size(); ++i)
    cost.bytes += static_cast<double>(bytes_of(inputs[i], inputs_[i].dtype()));
  for (size_t i = 0; i < outputs.size(); ++i)
    cost.bytes += static_cast<double>(bytes_of(outputs[i], outputs_[i].dtype));
  return cost;
}

Tensor Operation::wide_sum() const { return {}; }

std::optional<int> Operation::in_place(int) const { return std::nullopt; }

DType Operation::kernel_dtype() const {
  return inputs_.empty() ? outputs_.front().dtype : inputs_.front().dtype();
}

Tensors with_zeros(const Operation& operation, Tensors dy) {
  for (size_t i = 0; i < dy.size(); ++i) {
    const OutputInfo& output = operation.outputs()[i];
    if (!dy[i]) dy[i] = operation.graph().constant(0, output.dtype, output.shape);
  }
  return dy;
}

void shape_error(std::string_view operation, const std::string& message, const std::string& hint) {
  throw Error(ErrorKind::kConfig, fmt::format("{}: {}", operation, message), hint);
}

}  // namespace mtf
