#include "engine/ops/unary.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "engine/base/check.h"
#include "engine/graph/graph.h"
#include "engine/ops/binary.h"

namespace mtf {
namespace {

struct UnaryInfo {
  std::string_view name, gradient_name;
  unsigned operands;
  std::optional<formulas::Operand> gradient_of;  ///< nothing: the gradient is composed of operations
};

template <template <class> class Formula>
constexpr UnaryInfo info_of(std::string_view name, std::string_view gradient_name) {
  UnaryInfo info{name, gradient_name, Formula<void>::kOperands, {}};
  if constexpr (requires { Formula<void>::kGradientOf; }) info.gradient_of = Formula<void>::kGradientOf;
  return info;
}

constexpr UnaryInfo kUnaryFunctions[] = {
#define MTF_INFO(Formula, name) info_of<formulas::Formula>(#name, #name "_gradient"),
    MTF_UNARY_FUNCTIONS(MTF_INFO)
#undef MTF_INFO
};

const UnaryInfo& info(UnaryFunction function) { return kUnaryFunctions[static_cast<size_t>(function)]; }

using enum UnaryFunction;

bool has_parameter(UnaryFunction function) {
  return function == kPow || function == kScalarMultiply || function == kScalarAdd || function == kLeakyRelu;
}

Tensor apply(UnaryFunction function, const Tensor& x, double parameter = 0) {
  return x.graph().add<Unary>(function, x, parameter).output();
}

}  // namespace

Unary::Unary(UnaryFunction function, const Tensor& x, double parameter)
    : OperationBase({x}, {{x.shape(), x.dtype()}}), function(function), parameter(parameter) {
  if ((info(function).operands & formulas::kind_of(x.dtype())) == 0) {
    shape_error(name(), fmt::format("not defined for {}", name_of(x.dtype())), "cast the operand first");
  }
  if (has_parameter(function) && !is_floating(x.dtype()) && parameter != std::floor(parameter)) {
    shape_error(name(),
                fmt::format("{} is not a whole number, the tensor is {}", parameter, name_of(x.dtype())),
                "cast the tensor first");
  }
}

std::string_view Unary::name() const { return info(function).name; }

std::string Unary::attributes() const {
  return has_parameter(function) ? fmt::format("{}", parameter) : std::string();
}

ShardingRule Unary::sharding_rule(const ShardingRequest& request) const {
  const bool linear = function == kNegative || function == kScalarMultiply;
  return linear ? shard_linear(*this, request, {0}) : shard_by_name(*this, request);
}

Tensors Unary::gradient(const Tensors& dys) const {
  const Tensor &x = input(0), &dy = dys[0];
  const Tensor y = output();
  if (const auto of = info(function).gradient_of) {
    const Tensor& operand = *of == formulas::Operand::kInput ? x : y;
    return {graph().add<UnaryGradient>(function, dy, operand, parameter).output()};
  }
  switch (function) {
    case kNegative:
      return {negative(dy)};
    case kReciprocal:
      return {negative(dy * square(y))};
    case kSquare:
      return {scalar_multiply(dy * x, 2)};
    case kSqrt:
      return {scalar_multiply(dy / y, 0.5)};
    case kRsqrt:
      return {scalar_multiply(dy * (y * square(y)), -0.5)};
    case kExp:
      return {dy * y};
    case kLog:
      return {dy / x};
    case kSin:
      return {dy * cos(x)};
    case kCos:
      return {negative(dy * sin(x))};
    case kAbs:
      return {dy * sign(x)};
    case kPow:
      return {scalar_multiply(dy * pow(x, parameter - 1), parameter)};
    case kScalarMultiply:
      return {scalar_multiply(dy, parameter)};
    case kScalarAdd:
      return {dy};
    default:
      return {Tensor()};
  }
}

UnaryGradient::UnaryGradient(UnaryFunction function, const Tensor& dy, const Tensor& x_or_y, double parameter)
    : OperationBase({dy, x_or_y}, {{dy.shape(), dy.dtype()}}), function(function), parameter(parameter) {
  MTF_CHECK(dy.shape() == x_or_y.shape() && dy.dtype() == x_or_y.dtype(), "{} of {} and {}", name(),
            dy.shape().to_string(), x_or_y.shape().to_string());
}

std::string_view UnaryGradient::name() const { return info(function).gradient_name; }

std::string UnaryGradient::attributes() const {
  return has_parameter(function) ? fmt::format("{}", parameter) : std::string();
}

Tensors UnaryGradient::gradient(const Tensors&) const {
  shape_error(name(), "cannot be differentiated again", "there are no second derivatives of activations");
}

Tensor identity(const Tensor& x) { return x.graph().add<Identity>(x, false).output(); }
Tensor stop_gradient(const Tensor& x) { return x.graph().add<Identity>(x, true).output(); }
Tensor pow(const Tensor& x, double p) { return apply(kPow, x, p); }
Tensor scalar_multiply(const Tensor& x, double c) { return apply(kScalarMultiply, x, c); }
Tensor scalar_add(const Tensor& x, double c) { return apply(kScalarAdd, x, c); }
Tensor leaky_relu(const Tensor& x, double alpha) { return apply(kLeakyRelu, x, alpha); }
Tensor soft_cap(const Tensor& x, double cap) {
  return scalar_multiply(tanh(scalar_multiply(x, 1 / cap)), cap);
}
#define MTF_FUNCTION(Formula, name) \
  Tensor name(const Tensor& x) { return apply(k##Formula, x); }
MTF_UNARY_FUNCTIONS_OF_X(MTF_FUNCTION)
#undef MTF_FUNCTION

}  // namespace mtf
