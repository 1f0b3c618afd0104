// Functions of two tensors, element by element, with broadcasting by name.
//
//   Tensor y = x + bias;                            // x: [batch, hidden], bias: [hidden] -> [batch, hidden]
//   Tensor y = multiply(x, y, {hidden, batch});     // result in an order of one's own
//
// Output shape without an explicit one: that of the operand of which the other is a subsequence; else the
// first's dimensions followed by the second's new ones. Both operands have the same dtype. Throws Error for
// dtypes that differ or do not fit, for dimensions of one name and two sizes, and for an output that lacks a
// dimension.
#pragma once

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
  /// Summed down to each operand's shape.
  Tensors gradient(const Tensors& dy) const override;
  /// add and subtract of equal shapes keep partial sums over the same mesh dimensions; multiply and divide by
  /// a 0-dimensional tensor keep those of the other operand.
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

/// The output shape for operands of shapes `a` and `b`.
Shape broadcast_shape(std::string_view operation, const Shape& a, const Shape& b);

// Of floating-point and integer tensors.
Tensor add(const Tensor& a, const Tensor& b);
Tensor add(const Tensor& a, const Tensor& b, const Shape& output);
Tensor subtract(const Tensor& a, const Tensor& b);
Tensor subtract(const Tensor& a, const Tensor& b, const Shape& output);
Tensor multiply(const Tensor& a, const Tensor& b);
Tensor multiply(const Tensor& a, const Tensor& b, const Shape& output);
/// The gradient goes in full to every operand that equals the result (to both in a tie). NaN if one operand
/// is.
Tensor minimum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b, const Shape& output);
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor maximum(const Tensor& a, const Tensor& b, const Shape& output);
/// Quotient rounded down, and the remainder with the divisor's sign: -3 = -1 * 4 + 1. No gradient; integers
/// divided by 0 give 0.
Tensor floor_divide(const Tensor& a, const Tensor& b);
Tensor floor_divide(const Tensor& a, const Tensor& b, const Shape& output);
Tensor modulo(const Tensor& a, const Tensor& b);
Tensor modulo(const Tensor& a, const Tensor& b, const Shape& output);

// Of floating-point tensors.
Tensor divide(const Tensor& a, const Tensor& b);
Tensor divide(const Tensor& a, const Tensor& b, const Shape& output);

// To bool, without gradient; equal and not_equal also compare bool.
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

// Of bool.
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_and(const Tensor& a, const Tensor& b, const Shape& output);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b, const Shape& output);

/// a where condition holds, else b: a selection, so a NaN in the other branch stays there, in the gradient
/// too. Without an output shape: that of a and b, then of the result and the condition.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b, const Shape& output);

inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return subtract(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return multiply(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return divide(a, b); }

}  // namespace mtf
