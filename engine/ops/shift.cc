#include "engine/ops/shift.h"

#include <fmt/format.h>

#include "engine/ops/whole_dimension.h"

namespace mtf {

Shift::Shift(const Tensor& x, int64_t offset, std::string_view dimension, bool wrap)
    : OperationBase({x}, {{x.shape(), x.dtype()}}),
      dimension(x.shape().dimension(dimension).name),
      offset(offset),
      wrap(wrap) {}

std::string Shift::attributes() const {
  return fmt::format("dimension={}, offset={}{}", dimension, offset, wrap ? ", wrap" : "");
}

Tensors Shift::gradient(const Tensors& dy) const { return {shift(dy[0], -offset, dimension, wrap)}; }

ShardingRule Shift::sharding_rule(const ShardingRequest& request) const {
  return shard_linear(*this, request, {0});
}

Tensor shift(const Tensor& x, int64_t offset, DimensionName dimension, bool wrap) {
  const int64_t size = x.shape().dimension(dimension).size;
  if (offset == 0 || (wrap && offset % size == 0)) return x;
  return x.graph().add<Shift>(x, offset, dimension, wrap).output();
}

DynamicShift::DynamicShift(const Tensor& x, const Tensor& offset, std::string_view dimension, bool wrap,
                           bool backward)
    : OperationBase({x, offset}, {{x.shape(), x.dtype()}}),
      dimension(dimension),
      wrap(wrap),
      backward(backward) {
  const Shape others = x.shape() - x.shape().dimension(dimension);
  if (!others.contains_all(offset.shape())) {
    shape_error("dynamic_shift", fmt::format("the offset {} has dimensions that are not among {}",
                                             offset.shape().to_string(), others.to_string()));
  }
  if (offset.dtype() != DType::kInt32) {
    shape_error("dynamic_shift", fmt::format("the offset is {}", name_of(offset.dtype())), "int32");
  }
}

std::string DynamicShift::attributes() const {
  return fmt::format("dimension={}{}{}", dimension, wrap ? ", wrap" : "", backward ? ", backward" : "");
}

Tensors DynamicShift::gradient(const Tensors& dy) const {
  return {graph().add<DynamicShift>(dy[0], input(1), dimension, wrap, !backward).output(), {}};
}

ShardingRule DynamicShift::sharding_rule(const ShardingRequest& request) const {
  return with_whole_dimension(shard_by_name(*this, request), *this, dimension);
}

Tensor dynamic_shift(const Tensor& x, const Tensor& offset, DimensionName dimension, bool wrap) {
  return x.graph().add<DynamicShift>(x, offset, dimension, wrap).output();
}

}  // namespace mtf
