// Joins and splits tensors along one dimension, which a layout must not split. Partial sums pass through.
//
//   concat({x, y}, "length")           // [batch, length=6] and [batch, length=3] -> [batch, length=9]
//   split(x, "length", {2, 4})         // the inverse
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/ops/dimension_name.h"

namespace mtf {

/// Joins `xs`, which may differ only in the size of `dimension`; the sizes add up. Other dimensions match by
/// name; the result has the dimension order of the first tensor. Throws Error if dtypes or other dimensions
/// differ.
Tensor concat(const Tensors& xs, DimensionName dimension);

/// Splits `dimension` into parts of these sizes, which must add up to its size.
Tensors split(const Tensor& x, DimensionName dimension, const std::vector<int64_t>& sizes);
/// Splits `dimension` into `parts` equal parts; throws Error if its size is not a multiple.
Tensors split(const Tensor& x, DimensionName dimension, int64_t parts);

/// The inputs have the same dimensions in the same order.
class Concat final : public OperationBase<Concat> {
 public:
  Concat(const Tensors& xs, std::string_view dimension);
  std::string_view name() const override { return "concat"; }
  std::string attributes() const override { return "dimension=" + dimension; }
  /// Returns split(dy) by the inputs' sizes.
  Tensors gradient(const Tensors& dy) const override;
  ShardingRule sharding_rule(const ShardingRequest& request) const override;
  std::vector<std::string> unsplittable() const override { return {dimension}; }

  std::string dimension;
};

/// There is one output for each part.
class Split final : public OperationBase<Split> {
 public:
  Split(const Tensor& x, std::string_view dimension, std::vector<int64_t> sizes);
  std::string_view name() const override { return "split"; }
  std::string attributes() const override;
  /// Returns the concatenation of the given gradients, with zeros for those that are null.
  Tensors gradient(const Tensors& dy) const override;
  ShardingRule sharding_rule(const ShardingRequest& request) const override;
  std::vector<std::string> unsplittable() const override { return {dimension}; }

  std::string dimension;
  std::vector<int64_t> sizes;
};

}  // namespace mtf
