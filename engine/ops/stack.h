// Joining tensors along a new dimension and taking one apart again. The new dimension may not be split by a
// layout; a partial sum passes through.
//
//   stack({x, y}, "pair", 1)   // two [batch, length] -> [batch, pair=2, length]
//   unstack(z, "pair")         // the reverse
#pragma once

#include <string>
#include <string_view>

#include "engine/graph/graph.h"
#include "engine/ops/dimension_name.h"

namespace mtf {

/// Joins tensors of the same dimensions along a new one, which becomes axis `axis` of the result; negative
/// axes count from the end (-1: last). Throws Error when dtypes or dimensions differ, or the axis is out of
/// range.
Tensor stack(const Tensors& xs, DimensionName dimension, int axis = 0);

/// The entries of `dimension`, each without it.
Tensors unstack(const Tensor& x, DimensionName dimension);

/// Inputs have the same dimensions in the same order; 0 <= axis <= their rank.
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

/// One output for each entry.
class Unstack final : public OperationBase<Unstack> {
 public:
  Unstack(const Tensor& x, std::string_view dimension);
  std::string_view name() const override { return "unstack"; }
  std::string attributes() const override { return "dimension=" + dimension; }
  /// stack of the given gradients, zeros where there is none.
  Tensors gradient(const Tensors& dy) const override;
  ShardingRule sharding_rule(const ShardingRequest& request) const override;
  std::vector<std::string> unsplittable() const override { return {dimension}; }

  std::string dimension;
};

}  // namespace mtf
