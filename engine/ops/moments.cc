#include "engine/ops/moments.h"

#include <fmt/format.h>

#include "engine/ops/affine.h"
#include "engine/ops/cast.h"
#include "engine/ops/fused.h"

namespace mtf {

Moments::Moments(const Tensor& x, const Tensor& y, const Shape& kept)
    : OperationBase({x, y}, {{kept, DType::kFloat64}, {kept, DType::kFloat64}}) {
  if (!is_floating(x.dtype()) || x.dtype() != y.dtype() || x.shape() != y.shape() ||
      !x.shape().contains_all(kept)) {
    shape_error("moments",
                fmt::format("of {} {} and {} {} over all but {}", name_of(x.dtype()), x.shape().to_string(),
                            name_of(y.dtype()), y.shape().to_string(), kept.to_string()),
                "two floating-point tensors of one shape and type, and some of their dimensions");
  }
}

/// dx = y * d product; dy = d sum + x * d product.
Tensors Moments::gradient(const Tensors& dy) const {
  const DType dtype = accumulation_dtype(input(0).dtype());
  const auto given = [&](int i) {
    return dy[i] ? cast(dy[i], dtype) : graph().constant(0, dtype, outputs()[0].shape);
  };
  const Tensor sum = given(0), product = given(1);
  return {affine(input(1), product, graph().constant(0, dtype, product.shape())),
          affine(input(0), product, sum)};
}

ShardingRule Moments::sharding_rule(const ShardingRequest& request) const {
  return shard_reduction(*this, request, input(0).shape() - outputs()[0].shape, Reduction::kSum);
}

MomentSums moments(const Tensor& x, const Tensor& y, const Shape& kept) {
  const auto& operation = x.graph().add<Moments>(x, y, kept);
  return {operation.output(0), operation.output(1)};
}

}  // namespace mtf
