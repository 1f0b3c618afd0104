// Sums of one tensor and of its products with another over the dimensions that the result lacks, in float64: means,
// variances and the gradients of what is scaled by them. Differences of such sums lose nothing that a float32 had.
#pragma once

#include <string_view>

#include "engine/graph/graph.h"

namespace mtf {

/// Outputs, float64 and of shape `kept`: the sum of y, and the sum of x * y. x, y: the same shape; kept: some of its
/// dimensions. Where a summed dimension is split, the outputs are partial sums.
class Moments final : public OperationBase<Moments> {
 public:
  Moments(const Tensor& x, const Tensor& y, const Shape& kept);
  std::string_view name() const override { return "moments"; }
  Tensors gradient(const Tensors& dy) const override;
  ShardingRule sharding_rule(const ShardingRequest& request) const override;
};

struct MomentSums {
  Tensor sum, product;
};
MomentSums moments(const Tensor& x, const Tensor& y, const Shape& kept);

}  // namespace mtf
