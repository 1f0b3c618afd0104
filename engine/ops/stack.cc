#include "engine/ops/stack.h"

#include <fmt/format.h>

#include "engine/ops/broadcast.h"

namespace mtf {
namespace {

OutputInfo stacked(const Tensors& xs, std::string_view dimension, int axis) {
  const Shape& first = xs.at(0).shape();
  for (const Tensor& x : xs) {
    if (x.dtype() != xs[0].dtype() || x.shape() != first) {
      shape_error("stack", fmt::format("{} {} and {} {} differ", short_name(xs[0].dtype()), first.to_string(),
                                       short_name(x.dtype()), x.shape().to_string()));
    }
  }
  if (axis < 0 || axis > first.rank()) {
    shape_error("stack",
                fmt::format("axis {} is not one of {} with a new dimension", axis, first.to_string()),
                fmt::format("{} to {}", -first.rank() - 1, first.rank()));
  }
  std::vector<Dimension> dimensions = first.dimensions();
  dimensions.insert(dimensions.begin() + axis,
                    Dimension{std::string(dimension), static_cast<int64_t>(xs.size())});
  return {Shape(dimensions), xs[0].dtype()};
}

std::vector<OutputInfo> entries(const Tensor& x, std::string_view dimension) {
  const Dimension& d = x.shape().dimension(dimension);
  return std::vector<OutputInfo>(static_cast<size_t>(d.size), OutputInfo{x.shape() - d, x.dtype()});
}

}  // namespace

Stack::Stack(const Tensors& xs, std::string_view dimension, int axis)
    : OperationBase(xs, {stacked(xs, dimension, axis)}), dimension(dimension), axis(axis) {}

Tensors Stack::gradient(const Tensors& dy) const { return unstack(dy[0], dimension); }

ShardingRule Stack::sharding_rule(const ShardingRequest& request) const {
  return shard_linear(*this, request);
}

Tensor stack(const Tensors& xs, DimensionName dimension, int axis) {
  if (xs.empty()) shape_error("stack", "nothing to join");
  Tensors aligned;
  for (const Tensor& x : xs) {
    const bool reordered = same_dimensions(x.shape(), xs[0].shape()) && x.shape() != xs[0].shape();
    aligned.push_back(reordered ? transpose(x, xs[0].shape()) : x);
  }
  const int from_front = axis < 0 ? axis + xs[0].shape().rank() + 1 : axis;
  return xs[0].graph().add<Stack>(aligned, dimension, from_front).output();
}

Unstack::Unstack(const Tensor& x, std::string_view dimension)
    : OperationBase({x}, entries(x, dimension)), dimension(dimension) {}

Tensors Unstack::gradient(const Tensors& dy) const {
  return {stack(with_zeros(*this, dy), dimension, *input(0).shape().find(dimension))};
}

ShardingRule Unstack::sharding_rule(const ShardingRequest& request) const {
  return shard_linear(*this, request, {0});
}

Tensors unstack(const Tensor& x, DimensionName dimension) {
  const Unstack& operation = x.graph().add<Unstack>(x, dimension);
  Tensors parts;
  for (size_t i = 0; i < operation.outputs().size(); ++i)
    parts.push_back(operation.output(static_cast<int>(i)));
  return parts;
}

}  // namespace mtf
