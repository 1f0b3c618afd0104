// Reductions (sums, extrema, ...) over the dimensions that the output shape lacks.
//
//   Tensor loss = reduce_mean(error, {});               // a scalar tensor
//   Tensor bias_gradient = reduce_sum(dy, {hidden});    // dy: [batch, hidden]
//   Tensor largest = reduce_max(logits, vocabulary);    // over one dimension
//
// The output may have any subset of x's dimensions in any order. If it has all of them in x's order, x itself
// is returned. Sums of float32 and bfloat16 are as exact as float32 allows (blocks in float32, their sums in
// float64) and do not depend on the number of threads. Throws Error if x lacks a dimension or its dtype is
// not supported.
#pragma once

#include <concepts>
#include <string>
#include <string_view>

#include "engine/graph/operation.h"

namespace mtf {

enum class ReduceFunction { kSum, kMax, kMin, kAll, kAny };

class Reduce final : public OperationBase<Reduce> {
 public:
  /// `dtype` is that of x; sums of bfloat16 may also have float32.
  Reduce(ReduceFunction function, const Tensor& x, const Shape& output, DType dtype);
  std::string_view name() const override;
  Tensor wide_sum() const override;
  Tensors gradient(const Tensors& dy) const override;
  /// If a reduced dimension is split, the output is a partial result. Sums also pass on partial sums of x.
  ShardingRule sharding_rule(const ShardingRequest& request) const override;

  ReduceFunction function;
};

/// Selects the elements with index 0 along `dimension`.
class ReduceFirst final : public OperationBase<ReduceFirst> {
 public:
  ReduceFirst(const Tensor& x, const Dimension& dimension)
      : OperationBase({x}, {{x.shape() - dimension, x.dtype()}}), dimension(dimension) {}
  std::string_view name() const override { return "reduce_first"; }
  std::string attributes() const override { return dimension.name; }
  Tensors gradient(const Tensors& dy) const override;
  ShardingRule sharding_rule(const ShardingRequest& request) const override;

  Dimension dimension;
};

/// Places dy at index 0 along `dimension` of `shape`, and 0 elsewhere.
class ReduceFirstGradient final : public OperationBase<ReduceFirstGradient> {
 public:
  ReduceFirstGradient(const Tensor& dy, const Dimension& dimension, const Shape& shape)
      : OperationBase({dy}, {{shape, dy.dtype()}}), dimension(dimension) {}
  std::string_view name() const override { return "reduce_first_gradient"; }
  std::string attributes() const override { return dimension.name; }
  Tensors gradient(const Tensors& dy) const override;

  Dimension dimension;
};

/// The sum of all x[i]^2 as a float64 scalar, so that norms do not depend on how x is split.
class SumOfSquares final : public OperationBase<SumOfSquares> {
 public:
  explicit SumOfSquares(const Tensor& x);
  std::string_view name() const override { return "sum_of_squares"; }
  bool is_groupable() const override { return true; }
  Tensors gradient(const Tensors& dy) const override;
  ShardingRule sharding_rule(const ShardingRequest& request) const override;
};

Tensor reduce_sum(const Tensor& x, const Shape& output);
/// The gradient goes in full to every element that equals the extremum. The result is NaN if an element is.
Tensor reduce_max(const Tensor& x, const Shape& output);
Tensor reduce_min(const Tensor& x, const Shape& output);
/// Computes the mean of a floating-point tensor.
Tensor reduce_mean(const Tensor& x, const Shape& output);
/// Return whether all elements, or any elements, of a bool tensor are true.
Tensor reduce_all(const Tensor& x, const Shape& output);
Tensor reduce_any(const Tensor& x, const Shape& output);

// Reductions over one dimension. (They are templates, so that {hidden} always means the output shape.)
template <std::same_as<Dimension> D>
Tensor reduce_sum(const Tensor& x, const D& reduced) {
  return reduce_sum(x, x.shape() - reduced);
}
template <std::same_as<Dimension> D>
Tensor reduce_max(const Tensor& x, const D& reduced) {
  return reduce_max(x, x.shape() - reduced);
}
template <std::same_as<Dimension> D>
Tensor reduce_min(const Tensor& x, const D& reduced) {
  return reduce_min(x, x.shape() - reduced);
}
template <std::same_as<Dimension> D>
Tensor reduce_mean(const Tensor& x, const D& reduced) {
  return reduce_mean(x, x.shape() - reduced);
}
template <std::same_as<Dimension> D>
Tensor reduce_all(const Tensor& x, const D& reduced) {
  return reduce_all(x, x.shape() - reduced);
}
template <std::same_as<Dimension> D>
Tensor reduce_any(const Tensor& x, const D& reduced) {
  return reduce_any(x, x.shape() - reduced);
}

Tensor reduce_first(const Tensor& x, std::string_view dimension);
Tensor sum_of_squares(const Tensor& x);

}  // namespace mtf
