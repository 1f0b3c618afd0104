// The entries of one dimension in the opposite order.
//
//   reverse(x, "length")   // [0, 1, 2, 3] -> [3, 2, 1, 0]
#pragma once

#include <string>
#include <string_view>

#include "engine/graph/graph.h"
#include "engine/ops/dimension_name.h"

namespace mtf {

/// Returns x with entry i of `dimension` at size - 1 - i. If the dimension is split, it is gathered first.
Tensor reverse(const Tensor& x, DimensionName dimension);

class Reverse final : public OperationBase<Reverse> {
 public:
  Reverse(const Tensor& x, std::string_view dimension);
  std::string_view name() const override { return "reverse"; }
  std::string attributes() const override { return "dimension=" + dimension; }
  /// Returns dy in the opposite order.
  Tensors gradient(const Tensors& dy) const override;
  ShardingRule sharding_rule(const ShardingRequest& request) const override;

  std::string dimension;
};

}  // namespace mtf
