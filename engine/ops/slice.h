// Selects a range of one dimension; and the inverse, padding with zeros. The dimension must not be split by a
// layout. Partial sums pass through.
//
//   slice(x, "length", 1, 3)     // entries 1, 2, 3: [batch, length=6] -> [batch, length=3]
//   pad(y, "length", 1, 2)       // [batch, length=3] -> [batch, length=6]
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/ops/dimension_name.h"

namespace mtf {

/// Returns entries begin .. begin + size - 1 of `dimension`, which keeps its name. Throws Error if some of
/// them do not exist.
Tensor slice(const Tensor& x, DimensionName dimension, int64_t begin, int64_t size);

/// Adds `before` zeros in front of `dimension` and `after` behind it. Throws Error if one of them is
/// negative.
Tensor pad(const Tensor& x, DimensionName dimension, int64_t before, int64_t after);

class DimensionSlice final : public OperationBase<DimensionSlice> {
 public:
  DimensionSlice(const Tensor& x, std::string_view dimension, int64_t begin, int64_t size);
  std::string_view name() const override { return "slice"; }
  std::string attributes() const override;
  /// Returns pad(dy, begin, rest).
  Tensors gradient(const Tensors& dy) const override;
  ShardingRule sharding_rule(const ShardingRequest& request) const override;
  std::vector<std::string> unsplittable() const override { return {dimension}; }

  std::string dimension;
  int64_t begin;
};

class Pad final : public OperationBase<Pad> {
 public:
  Pad(const Tensor& x, std::string_view dimension, int64_t before, int64_t after);
  std::string_view name() const override { return "pad"; }
  std::string attributes() const override;
  /// Returns slice(dy, before, size of x).
  Tensors gradient(const Tensors& dy) const override;
  ShardingRule sharding_rule(const ShardingRequest& request) const override;
  std::vector<std::string> unsplittable() const override { return {dimension}; }

  std::string dimension;
  int64_t before;
};

}  // namespace mtf
