// Elementwise functions of one tensor: y[i] = f(x[i]). The output has the input's shape and dtype; no layout
// needs communication. The formulas are in unary_formulas.h. A NaN gives NaN.
//
//   Tensor hidden = gelu(einsum({x, wi}, {batch, d_ff}));
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/graph/operation.h"
#include "engine/ops/unary_formulas.h"

namespace mtf {

enum class UnaryFunction {
#define MTF_ENUMERATOR(Formula, name) k##Formula,
  MTF_UNARY_FUNCTIONS(MTF_ENUMERATOR)
#undef MTF_ENUMERATOR
};

/// Computes y = f(x), or f(x, parameter) for functions with a parameter.
class Unary final : public OperationBase<Unary> {
 public:
  Unary(UnaryFunction function, const Tensor& x, double parameter);
  std::string_view name() const override;
  std::optional<ElementwiseStep> elementwise_step() const override {
    return ElementwiseStep{ElementwiseStep::Kind::kUnary, static_cast<int>(function), parameter};
  }
  std::string attributes() const override;
  Tensors gradient(const Tensors& dy) const override;
  /// Linear functions pass on partial sums.
  ShardingRule sharding_rule(const ShardingRequest& request) const override;
  std::optional<int> in_place(int) const override { return 0; }

  UnaryFunction function;
  /// pow: the exponent; scalar_multiply: the factor; scalar_add: the summand; leaky_relu: alpha; others: 0.
  double parameter;
};

/// Computes dx = dy * f'(x) in one pass, called "<name>_gradient". Inputs: dy, and x or y as the formula
/// says.
class UnaryGradient final : public OperationBase<UnaryGradient> {
 public:
  UnaryGradient(UnaryFunction function, const Tensor& dy, const Tensor& x_or_y, double parameter);
  std::string_view name() const override;
  std::optional<ElementwiseStep> elementwise_step() const override {
    return ElementwiseStep{ElementwiseStep::Kind::kUnaryGradient, static_cast<int>(function), parameter};
  }
  std::string attributes() const override;
  /// Throws Error, because there are no second derivatives.
  Tensors gradient(const Tensors& dy) const override;
  std::optional<int> in_place(int) const override { return 0; }

  UnaryFunction function;
  double parameter;
};

/// A view of x under another handle; stop_gradient() sends no gradient back.
class Identity final : public OperationBase<Identity> {
 public:
  Identity(const Tensor& x, bool stop) : OperationBase({x}, {{x.shape(), x.dtype()}}), stop(stop) {}
  std::string_view name() const override { return stop ? "stop_gradient" : "identity"; }
  Tensors gradient(const Tensors& dy) const override { return {stop ? Tensor() : dy[0]}; }
  ShardingRule sharding_rule(const ShardingRequest& request) const override {
    return shard_linear(*this, request, {0});
  }
  bool is_view() const override { return true; }
  std::optional<int> in_place(int) const override { return 0; }

  bool stop;
};

Tensor identity(const Tensor& x);
Tensor stop_gradient(const Tensor& x);

// Functions of floating-point and integer tensors. Like all functions here they throw Error for other dtypes.
Tensor negative(const Tensor& x);
Tensor square(const Tensor& x);
Tensor abs(const Tensor& x);
/// Returns -1, 0 or 1; it has no gradient. The gradient of abs is 0 at 0.
Tensor sign(const Tensor& x);
/// Return x * c and x + c for a number c, which must be whole for integers.
Tensor scalar_multiply(const Tensor& x, double c);
Tensor scalar_add(const Tensor& x, double c);

// Functions of floating-point tensors.
Tensor reciprocal(const Tensor& x);
Tensor sqrt(const Tensor& x);
/// 1 / sqrt(x).
Tensor rsqrt(const Tensor& x);
Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
/// x^p; a negative x needs a whole p.
Tensor pow(const Tensor& x, double p);

// Activations of floating-point tensors.
/// max(x, 0); the gradient at 0 is 0.
Tensor relu(const Tensor& x);
/// x where x > 0, otherwise alpha * x.
Tensor leaky_relu(const Tensor& x, double alpha = 0.2);
/// x where x > 0, otherwise e^x - 1.
Tensor elu(const Tensor& x);
/// lambda * elu with alpha = 1.6732632423543772, lambda = 1.0507009873554805 (Klambauer et al. 2017).
Tensor selu(const Tensor& x);
/// log(1 + e^x).
Tensor softplus(const Tensor& x);
/// 1 / (1 + e^-x).
Tensor sigmoid(const Tensor& x);
Tensor tanh(const Tensor& x);
/// cap * tanh(x / cap), in three operations: bounds logits (Gemma 2, 2024, section 2).
Tensor soft_cap(const Tensor& x, double cap);
/// x * sigmoid(x).
Tensor swish(const Tensor& x);
/// x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))): the tanh approximation (Hendrycks and Gimpel 2016).
Tensor gelu(const Tensor& x);
/// x / 2 * (1 + erf(x / sqrt(2))) (Hendrycks and Gimpel 2016), within 1e-7 |x|.
Tensor gelu_erf(const Tensor& x);
/// max(x, 0)^2.
Tensor squared_relu(const Tensor& x);

/// Negates a bool tensor.
Tensor logical_not(const Tensor& x);

}  // namespace mtf
