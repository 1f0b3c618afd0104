// The largest entries along a dimension. On ties the lower index comes first; a NaN counts as larger than any
// number, so that it is noticed.
//
//   const auto [values, indices] = top_k(logits, "vocab", {"beam", 4});   // both [batch, beam=4]
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/ops/dimension_name.h"

namespace mtf {

struct TopKResult {
  Tensor values;
  Tensor indices;  ///< int32; indices along the searched dimension
};

/// Returns the k = k_dimension.size largest entries along `dimension` in descending order. x: [...,
/// dimension, ...] -> the other dimensions of x, then k_dimension, which a layout must not split. If
/// `dimension` is split, it is gathered. Throws Error if k exceeds its size. No gradient passes through the
/// indices.
TopKResult top_k(const Tensor& x, DimensionName dimension, const Dimension& k_dimension);

/// Returns the largest entry and its index, without `dimension`.
TopKResult top_1(const Tensor& x, DimensionName dimension);
/// Returns the index (int32) of the largest entry.
Tensor argmax(const Tensor& x, DimensionName dimension);

/// Returns the entry of rank n along `dimension`; n = 0 is the largest (or smallest) one.
Tensor nth_largest_element(const Tensor& x, int64_t n, DimensionName dimension);
Tensor nth_smallest_element(const Tensor& x, int64_t n, DimensionName dimension);

/// Outputs: values, indices.
class TopK final : public OperationBase<TopK> {
 public:
  TopK(const Tensor& x, std::string_view dimension, const Dimension& k_dimension);
  std::string_view name() const override { return "top_k"; }
  std::string attributes() const override;
  Tensors gradient(const Tensors& dy) const override;
  ShardingRule sharding_rule(const ShardingRequest& request) const override;
  std::vector<std::string> unsplittable() const override { return {k_dimension}; }

  std::string dimension;
  std::string k_dimension;
};

/// Writes dvalues at indices, and zeros elsewhere. Inputs: dvalues, indices (distinct along k_dimension).
class TopKGradient final : public OperationBase<TopKGradient> {
 public:
  TopKGradient(const Tensor& dvalues, const Tensor& indices, std::string_view dimension,
               std::string_view k_dimension, const Shape& x);
  std::string_view name() const override { return "top_k_gradient"; }
  std::string attributes() const override;
  Tensors gradient(const Tensors& ddx) const override;
  std::vector<std::string> unsplittable() const override { return {k_dimension}; }

  std::string dimension;
  std::string k_dimension;
};

}  // namespace mtf
