// The formulas of the functions of one tensor (engine/ops/unary.h), for every backend.
//
//   template <class Math>
//   struct Softsign {
//     static constexpr unsigned kOperands = kFloats;
//     static constexpr Operand kGradientOf = Operand::kInput;
//     template <class T>
//     MTF_FORMULA T f(T x, T) { return x / (1 + (x < 0 ? -x : x)); }
//     template <class T>
//     MTF_FORMULA T g(T dy, T x, T) { ... }
//   };
//
// kOperands lists the types that x may have. y = f(x, p), where p is the parameter of the operation. The
// gradient of a function with kGradientOf is computed by one kernel: dx = g(dy, x or y, p); the other
// gradients are composed of operations (Unary::gradient). Comparisons are written such that a NaN gives NaN.
// A product that meets a sum is written as Math::multiply_add, which says how it is rounded.
#pragma once

#include "engine/ops/formula.h"

// clang-format off
/// Lists the functions of x alone: X(formula, name of the operation).
#define MTF_UNARY_FUNCTIONS_OF_X(X)         \
  X(Negative, negative)                     \
  X(Reciprocal, reciprocal)                 \
  X(Square, square)                         \
  X(Sqrt, sqrt)                             \
  X(Rsqrt, rsqrt)                           \
  X(Exp, exp)                               \
  X(Log, log)                               \
  X(Sin, sin)                               \
  X(Cos, cos)                               \
  X(Abs, abs)                               \
  X(Sign, sign)                             \
  X(LogicalNot, logical_not)                \
  X(Relu, relu)                             \
  X(Elu, elu)                               \
  X(Selu, selu)                             \
  X(Softplus, softplus)                     \
  X(Sigmoid, sigmoid)                       \
  X(Tanh, tanh)                             \
  X(Swish, swish)                           \
  X(Gelu, gelu)                             \
  X(SquaredRelu, squared_relu)              \
  X(GeluErf, gelu_erf)
/// Lists all functions; those named here have a parameter p.
#define MTF_UNARY_FUNCTIONS(X)              \
  X(Pow, pow)                               \
  X(ScalarMultiply, scalar_multiply)        \
  X(ScalarAdd, scalar_add)                  \
  X(LeakyRelu, leaky_relu)                  \
  MTF_UNARY_FUNCTIONS_OF_X(X)
// clang-format on

namespace mtf::formulas {

template <class Math>
struct Negative {
  static constexpr unsigned kOperands = kNumbers;
  template <class T>
  MTF_FORMULA T f(T x, T) {
    return -x;
  }
};
template <class Math>
struct Reciprocal {
  static constexpr unsigned kOperands = kFloats;
  template <class T>
  MTF_FORMULA T f(T x, T) {
    return 1 / x;
  }
};
template <class Math>
struct Square {
  static constexpr unsigned kOperands = kNumbers;
  template <class T>
  MTF_FORMULA T f(T x, T) {
    return x * x;
  }
};
template <class Math>
struct Sqrt {
  static constexpr unsigned kOperands = kFloats;
  template <class T>
  MTF_FORMULA T f(T x, T) {
    return Math::sqrt(x);
  }
};
template <class Math>
struct Rsqrt {
  static constexpr unsigned kOperands = kFloats;
  template <class T>
  MTF_FORMULA T f(T x, T) {
    return 1 / Math::sqrt(x);
  }
};
template <class Math>
struct Exp {
  static constexpr unsigned kOperands = kFloats;
  template <class T>
  MTF_FORMULA T f(T x, T) {
    return Math::exp(x);
  }
};
template <class Math>
struct Log {
  static constexpr unsigned kOperands = kFloats;
  template <class T>
  MTF_FORMULA T f(T x, T) {
    return Math::log(x);
  }
};
template <class Math>
struct Sin {
  static constexpr unsigned kOperands = kFloats;
  template <class T>
  MTF_FORMULA T f(T x, T) {
    return Math::sin(x);
  }
};
template <class Math>
struct Cos {
  static constexpr unsigned kOperands = kFloats;
  template <class T>
  MTF_FORMULA T f(T x, T) {
    return Math::cos(x);
  }
};
template <class Math>
struct Abs {
  static constexpr unsigned kOperands = kNumbers;
  template <class T>
  MTF_FORMULA T f(T x, T) {
    return x < 0 ? -x : x;
  }
};
template <class Math>
struct Sign {
  static constexpr unsigned kOperands = kNumbers;
  template <class T>
  MTF_FORMULA T f(T x, T) {
    return x > 0 ? T(1) : x < 0 ? T(-1) : x;
  }
};
template <class Math>
struct Pow {
  static constexpr unsigned kOperands = kFloats;
  template <class T>
  MTF_FORMULA T f(T x, T p) {
    return Math::pow(x, p);
  }
};
template <class Math>
struct ScalarMultiply {
  static constexpr unsigned kOperands = kNumbers;
  template <class T>
  MTF_FORMULA T f(T x, T p) {
    return x * p;
  }
};
template <class Math>
struct ScalarAdd {
  static constexpr unsigned kOperands = kNumbers;
  template <class T>
  MTF_FORMULA T f(T x, T p) {
    return x + p;
  }
};
template <class Math>
struct LogicalNot {
  static constexpr unsigned kOperands = kBools;
  template <class T>
  MTF_FORMULA T f(T x, T) {
    return !x;
  }
};
template <class Math>
struct Relu {
  static constexpr unsigned kOperands = kFloats;
  static constexpr Operand kGradientOf = Operand::kOutput;
  template <class T>
  MTF_FORMULA T f(T x, T) {
    return x < 0 ? T(0) : x;
  }
  template <class T>
  MTF_FORMULA T g(T dy, T y, T) {
    return y > 0 ? dy : T(0);
  }
};
template <class Math>
struct LeakyRelu {
  static constexpr unsigned kOperands = kFloats;
  static constexpr Operand kGradientOf = Operand::kInput;
  template <class T>
  MTF_FORMULA T f(T x, T p) {
    return x > 0 ? x : p * x;
  }
  template <class T>
  MTF_FORMULA T g(T dy, T x, T p) {
    return x > 0 ? dy : p * dy;
  }
};
template <class Math>
struct Elu {
  static constexpr unsigned kOperands = kFloats;
  static constexpr Operand kGradientOf = Operand::kOutput;
  template <class T>
  MTF_FORMULA T f(T x, T) {
    return x > 0 ? x : Math::expm1(x);
  }
  template <class T>
  MTF_FORMULA T g(T dy, T y, T) {
    return y > 0 ? dy : dy * (y + 1);
  }
};
template <class Math>
struct Selu {
  static constexpr unsigned kOperands = kFloats;
  static constexpr Operand kGradientOf = Operand::kOutput;
  static constexpr double kAlpha = 1.6732632423543772, kLambda = 1.0507009873554805;
  template <class T>
  MTF_FORMULA T f(T x, T) {
    return T(kLambda) * (x > 0 ? x : T(kAlpha) * Math::expm1(x));
  }
  template <class T>
  MTF_FORMULA T g(T dy, T y, T) {
    return dy * (y >= 0 ? T(kLambda) : y + T(kLambda * kAlpha));
  }
};
template <class Math>
struct Softplus {
  static constexpr unsigned kOperands = kFloats;
  static constexpr Operand kGradientOf = Operand::kInput;
  template <class T>
  MTF_FORMULA T f(T x, T) {
    return Math::softplus(x);
  }
  template <class T>
  MTF_FORMULA T g(T dy, T x, T) {
    return dy * Math::sigmoid(x);
  }
};
template <class Math>
struct Sigmoid {
  static constexpr unsigned kOperands = kFloats;
  static constexpr Operand kGradientOf = Operand::kOutput;
  template <class T>
  MTF_FORMULA T f(T x, T) {
    return Math::sigmoid(x);
  }
  template <class T>
  MTF_FORMULA T g(T dy, T y, T) {
    return dy * (y * (1 - y));
  }
};
template <class Math>
struct Tanh {
  static constexpr unsigned kOperands = kFloats;
  static constexpr Operand kGradientOf = Operand::kOutput;
  template <class T>
  MTF_FORMULA T f(T x, T) {
    return Math::tanh(x);
  }
  template <class T>
  MTF_FORMULA T g(T dy, T y, T) {
    return dy * Math::multiply_add(-y, y, T(1));
  }
};
template <class Math>
struct Swish {
  static constexpr unsigned kOperands = kFloats;
  static constexpr Operand kGradientOf = Operand::kInput;
  template <class T>
  MTF_FORMULA T f(T x, T) {
    return x * Math::sigmoid(x);
  }
  template <class T>
  MTF_FORMULA T g(T dy, T x, T) {
    const T s = Math::sigmoid(x);
    return dy * Math::multiply_add(x, s * (1 - s), s);
  }
};
/// Uses (1 + tanh(u)) / 2 = sigmoid(2u), with u = sqrt(2/pi) (x + 0.044715 x^3).
template <class Math>
struct Gelu {
  static constexpr unsigned kOperands = kFloats;
  static constexpr Operand kGradientOf = Operand::kInput;
  static constexpr double kTwoU = 2 * 0.7978845608028654, kCubic = 0.044715;
  template <class T>
  MTF_FORMULA T two_u(T x, T square) {
    return T(kTwoU) * Math::multiply_add(T(kCubic) * square, x, x);
  }
  template <class T>
  MTF_FORMULA T f(T x, T) {
    return x * Math::sigmoid(two_u(x, x * x));
  }
  template <class T>
  MTF_FORMULA T g(T dy, T x, T) {
    const T square = x * x;
    const T s = Math::sigmoid(two_u(x, square));
    // Beyond |x| = 100 the derivative of s is 0; it must not be multiplied by an overflowing cube.
    const T slope = square < 10000 ? x * (T(kTwoU) * Math::multiply_add(T(3 * kCubic), square, T(1))) : T(0);
    return dy * Math::multiply_add(slope, s * (1 - s), s);
  }
};
template <class Math>
struct SquaredRelu {
  static constexpr unsigned kOperands = kFloats;
  static constexpr Operand kGradientOf = Operand::kInput;
  template <class T>
  MTF_FORMULA T f(T x, T) {
    return x < 0 ? T(0) : x * x;
  }
  template <class T>
  MTF_FORMULA T g(T dy, T x, T) {
    return dy * (x > 0 ? 2 * x : T(0));
  }
};

/// x Phi(x), Phi(x) = (1 + erf(x / sqrt 2)) / 2. The tail Phi(-|x|) is a polynomial of t times exp(-x^2 / 2), within 7.5e-8:
/// Abramowitz and Stegun, Handbook of Mathematical Functions, 1964, 26.2.17.
template <class Math>
struct GeluErf {
  static constexpr unsigned kOperands = kFloats;
  static constexpr Operand kGradientOf = Operand::kInput;
  static constexpr double kDensity = 0.3989422804014327;
  template <class T>
  MTF_FORMULA T density(T x) {
    return T(kDensity) * Math::exp(T(-0.5) * (x * x));
  }
  /// density: that of x.
  template <class T>
  MTF_FORMULA T phi(T x, T density) {
    const T magnitude = x < 0 ? -x : x;
    const T t = 1 / Math::multiply_add(T(0.2316419), magnitude, T(1));
    T sum = Math::multiply_add(T(1.330274429), t, T(-1.821255978));
    sum = Math::multiply_add(sum, t, T(1.781477937));
    sum = Math::multiply_add(sum, t, T(-0.356563782));
    sum = Math::multiply_add(sum, t, T(0.319381530));
    const T tail = density * (sum * t);
    return x < 0 ? tail : 1 - tail;
  }
  template <class T>
  MTF_FORMULA T f(T x, T) {
    return x * phi(x, density(x));
  }
  template <class T>
  MTF_FORMULA T g(T dy, T x, T) {
    const T of_x = density(x);
    return dy * Math::multiply_add(x, of_x, phi(x, of_x));
  }
};

}  // namespace mtf::formulas
