// Elementwise functions of two tensors, with broadcasting by name.
//
//   Tensor y = x + bias;                            // x: [batch, hidden], bias: [hidden] -> [batch, hidden]
//   Tensor y = multiply(x, y, {hidden, batch});     // result with explicit dimension order
//
// Without an explicit output shape, the output has the shape of the operand of which the other one is a
// subsequence; otherwise the dimensions of the first operand followed by the new ones of the second. Both
// operands must have the same dtype. Throws Error if dtypes differ or are not supported, if a dimension has
// two sizes, or if the output lacks a dimension.
#pragma once

#include <optional>
#include <string_view>

#include "engine/graph/operation.h"
#include "engine/ops/binary_formulas.h"

namespace mtf {

enum class BinaryFunction {
#define MTF_ENUMERATOR(Formula, name) k##Formula,
  MTF_BINARY_FUNCTIONS(MTF_ENUMERATOR)
#undef MTF_ENUMERATOR
};

class Binary final : public OperationBase<Binary> {
 public:
  Binary(BinaryFunction function, const Tensor& a, const Tensor& b, const Shape& output);
  std::string_view name() const override;
  std::optional<ElementwiseStep> elementwise_step() const override {
    return ElementwiseStep{ElementwiseStep::Kind::kBinary, static_cast<int>(function)};
  }
  /// Gradients are scaled and weights decay by products.
  bool is_groupable() const override { return function == BinaryFunction::kMultiply; }
  /// The gradients are summed down to each operand's shape.
  Tensors gradient(const Tensors& dy) const override;
  /// add and subtract of equal shapes keep partial sums over the same mesh dimensions; multiply and divide by
  /// a scalar tensor keep those of the other operand.
  ShardingRule sharding_rule(const ShardingRequest& request) const override;
  std::optional<int> in_place(int) const override;

  BinaryFunction function;
};

/// Inputs: condition (bool), a, b.
class Where final : public OperationBase<Where> {
 public:
  Where(const Tensor& condition, const Tensor& a, const Tensor& b, const Shape& output);
  std::string_view name() const override { return "where"; }
  std::optional<ElementwiseStep> elementwise_step() const override {
    return ElementwiseStep{ElementwiseStep::Kind::kWhere};
  }
  Tensors gradient(const Tensors& dy) const override;
  std::optional<int> in_place(int) const override;
};

/// Returns the output shape for operands of shapes `a` and `b`.
Shape broadcast_shape(std::string_view operation, const Shape& a, const Shape& b);

// Functions of floating-point and integer tensors.
Tensor add(const Tensor& a, const Tensor& b);
Tensor add(const Tensor& a, const Tensor& b, const Shape& output);
Tensor subtract(const Tensor& a, const Tensor& b);
Tensor subtract(const Tensor& a, const Tensor& b, const Shape& output);
Tensor multiply(const Tensor& a, const Tensor& b);
Tensor multiply(const Tensor& a, const Tensor& b, const Shape& output);
/// The gradient goes in full to every operand that equals the result (to both in a tie). The result is NaN if
/// one operand is.
Tensor minimum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b, const Shape& output);
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor maximum(const Tensor& a, const Tensor& b, const Shape& output);
/// The quotient rounded down, and the remainder, which has the sign of the divisor: -3 = -1 * 4 + 1. They
/// have no gradient. Integers divided by 0 give 0.
Tensor floor_divide(const Tensor& a, const Tensor& b);
Tensor floor_divide(const Tensor& a, const Tensor& b, const Shape& output);
Tensor modulo(const Tensor& a, const Tensor& b);
Tensor modulo(const Tensor& a, const Tensor& b, const Shape& output);

// Functions of floating-point tensors.
Tensor divide(const Tensor& a, const Tensor& b);
Tensor divide(const Tensor& a, const Tensor& b, const Shape& output);

// Comparisons: the result is bool and has no gradient. equal and not_equal also compare bool tensors.
Tensor less(const Tensor& a, const Tensor& b);
Tensor less(const Tensor& a, const Tensor& b, const Shape& output);
Tensor greater(const Tensor& a, const Tensor& b);
Tensor greater(const Tensor& a, const Tensor& b, const Shape& output);
Tensor less_equal(const Tensor& a, const Tensor& b);
Tensor less_equal(const Tensor& a, const Tensor& b, const Shape& output);
Tensor greater_equal(const Tensor& a, const Tensor& b);
Tensor greater_equal(const Tensor& a, const Tensor& b, const Shape& output);
Tensor equal(const Tensor& a, const Tensor& b);
Tensor equal(const Tensor& a, const Tensor& b, const Shape& output);
Tensor not_equal(const Tensor& a, const Tensor& b);
Tensor not_equal(const Tensor& a, const Tensor& b, const Shape& output);

// Functions of bool tensors.
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_and(const Tensor& a, const Tensor& b, const Shape& output);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b, const Shape& output);

/// Selects a where the condition is true, otherwise b. A NaN in the operand that is not selected has no
/// effect, not even on the gradient. Without an explicit output shape: the broadcast shape of a and b, then
/// of that and the condition.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b, const Shape& output);

inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return subtract(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return multiply(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return divide(a, b); }

}  // namespace mtf
