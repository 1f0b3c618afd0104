// Joins tensors along a new dimension, and the inverse. The new dimension must not be split by a layout.
// Partial sums pass through.
//
//   stack({x, y}, "pair", 1)   // two [batch, length] -> [batch, pair=2, length]
//   unstack(z, "pair")         // the inverse
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/ops/dimension_name.h"

namespace mtf {

/// Joins tensors with the same dimensions along a new one, which becomes axis `axis` of the result; negative
/// axes count from the end (-1: last). Throws Error if dtypes or dimensions differ or the axis is out of
/// range.
Tensor stack(const Tensors& xs, DimensionName dimension, int axis = 0);

/// Returns the entries of `dimension`, each without it.
Tensors unstack(const Tensor& x, DimensionName dimension);

/// The inputs have the same dimensions in the same order; 0 <= axis <= their rank.
class Stack final : public OperationBase<Stack> {
 public:
  Stack(const Tensors& xs, std::string_view dimension, int axis);
  std::string_view name() const override { return "stack"; }
  std::string attributes() const override { return "dimension=" + dimension; }
  Tensors gradient(const Tensors& dy) const override;
  ShardingRule sharding_rule(const ShardingRequest& request) const override;
  std::vector<std::string> unsplittable() const override { return {dimension}; }

  std::string dimension;
  int axis;
};

/// There is one output for each entry.
class Unstack final : public OperationBase<Unstack> {
 public:
  Unstack(const Tensor& x, std::string_view dimension);
  std::string_view name() const override { return "unstack"; }
  std::string attributes() const override { return "dimension=" + dimension; }
  /// Stacks the given gradients, with zeros for those that are null.
  Tensors gradient(const Tensors& dy) const override;
  ShardingRule sharding_rule(const ShardingRequest& request) const override;
  std::vector<std::string> unsplittable() const override { return {dimension}; }

  std::string dimension;
};

}  // namespace mtf
