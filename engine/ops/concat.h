// Joining and cutting tensors along one dimension. The dimension itself may not be split by a layout; a
// partial sum passes through.
//
//   concat({x, y}, "length")           // [batch, length=6] and [batch, length=3] -> [batch, length=9]
//   split(x, "length", {2, 4})         // the reverse
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/ops/dimension_name.h"

namespace mtf {

/// Joins `xs`, which differ only in the size of `dimension`; the sizes add. Other dimensions match by name;
/// the first tensor's order is taken. Throws Error when dtypes or other dimensions differ.
Tensor concat(const Tensors& xs, DimensionName dimension);

/// Cuts `dimension` into parts of these sizes, which must add up to it.
Tensors split(const Tensor& x, DimensionName dimension, const std::vector<int64_t>& sizes);
/// Cuts `dimension` into `parts` equal parts; throws Error when its size is not a multiple.
Tensors split(const Tensor& x, DimensionName dimension, int64_t parts);

/// One output; inputs have the same dimensions in the same order.
class Concat final : public OperationBase<Concat> {
 public:
  Concat(const Tensors& xs, std::string_view dimension);
  std::string_view name() const override { return "concat"; }
  std::string attributes() const override { return "dimension=" + dimension; }
  /// split(dy) by the inputs' sizes.
  Tensors gradient(const Tensors& dy) const override;
  ShardingRule sharding_rule(const ShardingRequest& request) const override;
  std::vector<std::string> unsplittable() const override { return {dimension}; }

  std::string dimension;
};

/// One output for each part.
class Split final : public OperationBase<Split> {
 public:
  Split(const Tensor& x, std::string_view dimension, std::vector<int64_t> sizes);
  std::string_view name() const override { return "split"; }
  std::string attributes() const override;
  /// concat of the given gradients, zeros where there is none.
  Tensors gradient(const Tensors& dy) const override;
  ShardingRule sharding_rule(const ShardingRequest& request) const override;
  std::vector<std::string> unsplittable() const override { return {dimension}; }

  std::string dimension;
  std::vector<int64_t> sizes;
};

}  // namespace mtf
