#include "engine/ops/component_wise.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "engine/base/check.h"
#include "engine/graph/graph.h"
#include "engine/ops/binary.h"

namespace mtf {
namespace {

enum class OperandType { kFloating, kNumber, kBool };
/// What the fused gradient is computed from besides dy.
enum class From { kNone, kInput, kOutput };

struct UnaryInfo {
  UnaryFunction function;
  std::string_view name;
  OperandType operand;
  From gradient_from = From::kNone;
  std::string_view gradient_name = {};
};

using enum UnaryFunction;
constexpr std::array kUnaryFunctions{
    UnaryInfo{kNegative, "negative", OperandType::kNumber},
    UnaryInfo{kReciprocal, "reciprocal", OperandType::kFloating},
    UnaryInfo{kSquare, "square", OperandType::kNumber},
    UnaryInfo{kSqrt, "sqrt", OperandType::kFloating},
    UnaryInfo{kRsqrt, "rsqrt", OperandType::kFloating},
    UnaryInfo{kExp, "exp", OperandType::kFloating},
    UnaryInfo{kLog, "log", OperandType::kFloating},
    UnaryInfo{kSin, "sin", OperandType::kFloating},
    UnaryInfo{kCos, "cos", OperandType::kFloating},
    UnaryInfo{kAbs, "abs", OperandType::kNumber},
    UnaryInfo{kSign, "sign", OperandType::kNumber},
    UnaryInfo{kLogicalNot, "logical_not", OperandType::kBool},
    UnaryInfo{kPow, "pow", OperandType::kFloating},
    UnaryInfo{kScalarMultiply, "scalar_multiply", OperandType::kNumber},
    UnaryInfo{kScalarAdd, "scalar_add", OperandType::kNumber},
    UnaryInfo{kRelu, "relu", OperandType::kFloating, From::kOutput, "relu_gradient"},
    UnaryInfo{kLeakyRelu, "leaky_relu", OperandType::kFloating, From::kInput, "leaky_relu_gradient"},
    UnaryInfo{kElu, "elu", OperandType::kFloating, From::kOutput, "elu_gradient"},
    UnaryInfo{kSelu, "selu", OperandType::kFloating, From::kOutput, "selu_gradient"},
    UnaryInfo{kSoftplus, "softplus", OperandType::kFloating, From::kInput, "softplus_gradient"},
    UnaryInfo{kSigmoid, "sigmoid", OperandType::kFloating, From::kOutput, "sigmoid_gradient"},
    UnaryInfo{kTanh, "tanh", OperandType::kFloating, From::kOutput, "tanh_gradient"},
    UnaryInfo{kSwish, "swish", OperandType::kFloating, From::kInput, "swish_gradient"},
    UnaryInfo{kGelu, "gelu", OperandType::kFloating, From::kInput, "gelu_gradient"},
    UnaryInfo{kSquaredRelu, "squared_relu", OperandType::kFloating, From::kInput, "squared_relu_gradient"},
};

const UnaryInfo& info(UnaryFunction function) {
  const UnaryInfo& found = kUnaryFunctions[static_cast<size_t>(function)];
  MTF_CHECK(found.function == function, "the table of functions is out of order at {}", found.name);
  return found;
}

bool has_parameter(UnaryFunction function) {
  return function == kPow || function == kScalarMultiply || function == kScalarAdd || function == kLeakyRelu;
}

Tensor apply(UnaryFunction function, const Tensor& x, double parameter = 0) {
  return x.graph().add<ComponentWise>(function, x, parameter).output();
}

}  // namespace

ComponentWise::ComponentWise(UnaryFunction function, const Tensor& x, double parameter)
    : OperationBase({x}, {{x.shape(), x.dtype()}}), function(function), parameter(parameter) {
  const OperandType operand = info(function).operand;
  const bool fits = operand == OperandType::kBool     ? x.dtype() == DType::kBool
                    : operand == OperandType::kNumber ? x.dtype() != DType::kBool
                                                      : is_floating(x.dtype());
  if (!fits) {
    shape_error(name(), fmt::format("not defined for {}", name_of(x.dtype())), "cast the operand first");
  }
  if (has_parameter(function) && !is_floating(x.dtype()) && parameter != std::floor(parameter)) {
    shape_error(name(),
                fmt::format("{} is not a whole number, the tensor is {}", parameter, name_of(x.dtype())),
                "cast the tensor first");
  }
}

std::string_view ComponentWise::name() const { return info(function).name; }

std::string ComponentWise::attributes() const {
  return has_parameter(function) ? fmt::format("{}", parameter) : std::string();
}

Placement ComponentWise::place(const PlacementRequest& request) const {
  const bool linear = function == kNegative || function == kScalarMultiply;
  return linear ? place_linear(*this, request, {0}) : place_by_name(*this, request);
}

Tensors ComponentWise::gradient(const Tensors& dys) const {
  const Tensor &x = input(0), &dy = dys[0];
  const Tensor y = output();
  if (info(function).gradient_from != From::kNone) {
    const Tensor& from = info(function).gradient_from == From::kInput ? x : y;
    return {graph().add<ComponentWiseGradient>(function, dy, from, parameter).output()};
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

ComponentWiseGradient::ComponentWiseGradient(UnaryFunction function, const Tensor& dy, const Tensor& x_or_y,
                                             double parameter)
    : OperationBase({dy, x_or_y}, {{dy.shape(), dy.dtype()}}), function(function), parameter(parameter) {
  MTF_CHECK(dy.shape() == x_or_y.shape() && dy.dtype() == x_or_y.dtype(), "{} of {} and {}", name(),
            dy.shape().to_string(), x_or_y.shape().to_string());
}

std::string_view ComponentWiseGradient::name() const { return info(function).gradient_name; }

std::string ComponentWiseGradient::attributes() const {
  return has_parameter(function) ? fmt::format("{}", parameter) : std::string();
}

Tensors ComponentWiseGradient::gradient(const Tensors&) const {
  shape_error(name(), "cannot be differentiated again", "there are no second derivatives of activations");
}

Tensor identity(const Tensor& x) { return x.graph().add<Identity>(x, false).output(); }
Tensor stop_gradient(const Tensor& x) { return x.graph().add<Identity>(x, true).output(); }
Tensor negative(const Tensor& x) { return apply(kNegative, x); }
Tensor square(const Tensor& x) { return apply(kSquare, x); }
Tensor abs(const Tensor& x) { return apply(kAbs, x); }
Tensor sign(const Tensor& x) { return apply(kSign, x); }
Tensor scalar_multiply(const Tensor& x, double c) { return apply(kScalarMultiply, x, c); }
Tensor scalar_add(const Tensor& x, double c) { return apply(kScalarAdd, x, c); }
Tensor reciprocal(const Tensor& x) { return apply(kReciprocal, x); }
Tensor sqrt(const Tensor& x) { return apply(kSqrt, x); }
Tensor rsqrt(const Tensor& x) { return apply(kRsqrt, x); }
Tensor exp(const Tensor& x) { return apply(kExp, x); }
Tensor log(const Tensor& x) { return apply(kLog, x); }
Tensor sin(const Tensor& x) { return apply(kSin, x); }
Tensor cos(const Tensor& x) { return apply(kCos, x); }
Tensor pow(const Tensor& x, double p) { return apply(kPow, x, p); }
Tensor relu(const Tensor& x) { return apply(kRelu, x); }
Tensor leaky_relu(const Tensor& x, double alpha) { return apply(kLeakyRelu, x, alpha); }
Tensor elu(const Tensor& x) { return apply(kElu, x); }
Tensor selu(const Tensor& x) { return apply(kSelu, x); }
Tensor softplus(const Tensor& x) { return apply(kSoftplus, x); }
Tensor sigmoid(const Tensor& x) { return apply(kSigmoid, x); }
Tensor tanh(const Tensor& x) { return apply(kTanh, x); }
Tensor swish(const Tensor& x) { return apply(kSwish, x); }
Tensor gelu(const Tensor& x) { return apply(kGelu, x); }
Tensor squared_relu(const Tensor& x) { return apply(kSquaredRelu, x); }
Tensor logical_not(const Tensor& x) { return apply(kLogicalNot, x); }

}  // namespace mtf
