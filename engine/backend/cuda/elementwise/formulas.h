// The formulas of the component-wise and the binary operations, for any type that kernels compute with: those
// of engine/backend/cpu/{component_wise,binary}.cc. Comparisons are such that NaN comes out.
#pragma once

#include <type_traits>

#include "engine/backend/cuda/device/block.h"
#include "engine/backend/cuda/device/math.h"
#include "engine/backend/integer_division.h"

namespace mtf::cuda::formulas {

// y = f(x, p), where p is the operation's parameter; dx = g(dy, x or y, p).

struct Negative {
  template <class T>
  static MTF_DEVICE T f(T x, T) {
    return -x;
  }
};
struct Reciprocal {
  template <class T>
  static MTF_DEVICE T f(T x, T) {
    return 1 / x;
  }
};
struct Square {
  template <class T>
  static MTF_DEVICE T f(T x, T) {
    return x * x;
  }
};
struct Sqrt {
  template <class T>
  static MTF_DEVICE T f(T x, T) {
    return math::sqrt(x);
  }
};
struct Rsqrt {
  template <class T>
  static MTF_DEVICE T f(T x, T) {
    return 1 / math::sqrt(x);
  }
};
struct Exp {
  template <class T>
  static MTF_DEVICE T f(T x, T) {
    return math::exp(x);
  }
};
struct Log {
  template <class T>
  static MTF_DEVICE T f(T x, T) {
    return math::log(x);
  }
};
struct Sin {
  template <class T>
  static MTF_DEVICE T f(T x, T) {
    return math::sin(x);
  }
};
struct Cos {
  template <class T>
  static MTF_DEVICE T f(T x, T) {
    return math::cos(x);
  }
};
struct Abs {
  template <class T>
  static MTF_DEVICE T f(T x, T) {
    return x < 0 ? -x : x;
  }
};
struct Sign {
  template <class T>
  static MTF_DEVICE T f(T x, T) {
    return x > 0 ? T(1) : x < 0 ? T(-1) : x;
  }
};
struct Pow {
  template <class T>
  static MTF_DEVICE T f(T x, T p) {
    return math::pow(x, p);
  }
};
struct ScalarMultiply {
  template <class T>
  static MTF_DEVICE T f(T x, T p) {
    return x * p;
  }
};
struct ScalarAdd {
  template <class T>
  static MTF_DEVICE T f(T x, T p) {
    return x + p;
  }
};
struct LogicalNot {
  template <class T>
  static MTF_DEVICE T f(T x, T) {
    return !x;
  }
};
struct Relu {
  template <class T>
  static MTF_DEVICE T f(T x, T) {
    return x < 0 ? T(0) : x;
  }
  template <class T>
  static MTF_DEVICE T g(T dy, T y, T) {
    return y > 0 ? dy : T(0);
  }
};
struct LeakyRelu {
  template <class T>
  static MTF_DEVICE T f(T x, T p) {
    return x > 0 ? x : p * x;
  }
  template <class T>
  static MTF_DEVICE T g(T dy, T x, T p) {
    return x > 0 ? dy : p * dy;
  }
};
struct Elu {
  template <class T>
  static MTF_DEVICE T f(T x, T) {
    return x > 0 ? x : math::expm1(x);
  }
  template <class T>
  static MTF_DEVICE T g(T dy, T y, T) {
    return y > 0 ? dy : dy * (y + 1);
  }
};
struct Selu {
  static constexpr double kAlpha = 1.6732632423543772, kLambda = 1.0507009873554805;
  template <class T>
  static MTF_DEVICE T f(T x, T) {
    return T(kLambda) * (x > 0 ? x : T(kAlpha) * math::expm1(x));
  }
  template <class T>
  static MTF_DEVICE T g(T dy, T y, T) {
    return dy * (y >= 0 ? T(kLambda) : y + T(kLambda * kAlpha));
  }
};
struct Softplus {
  template <class T>
  static MTF_DEVICE T f(T x, T) {
    return math::softplus(x);
  }
  template <class T>
  static MTF_DEVICE T g(T dy, T x, T) {
    return dy * math::sigmoid(x);
  }
};
struct Sigmoid {
  template <class T>
  static MTF_DEVICE T f(T x, T) {
    return math::sigmoid(x);
  }
  template <class T>
  static MTF_DEVICE T g(T dy, T y, T) {
    return dy * (y * (1 - y));
  }
};
struct Tanh {
  template <class T>
  static MTF_DEVICE T f(T x, T) {
    return math::tanh(x);
  }
  template <class T>
  static MTF_DEVICE T g(T dy, T y, T) {
    return dy * (1 - y * y);
  }
};
struct Swish {
  template <class T>
  static MTF_DEVICE T f(T x, T) {
    return x * math::sigmoid(x);
  }
  template <class T>
  static MTF_DEVICE T g(T dy, T x, T) {
    const T s = math::sigmoid(x);
    return dy * (s + x * (s * (1 - s)));
  }
};
/// (1 + tanh(u)) / 2 = sigmoid(2u), with u = sqrt(2/pi) (x + 0.044715 x^3).
struct Gelu {
  static constexpr double kTwoU = 2 * 0.7978845608028654, kCubic = 0.044715;
  template <class T>
  static MTF_DEVICE T f(T x, T) {
    return x * math::sigmoid(T(kTwoU) * (x + T(kCubic) * x * x * x));
  }
  template <class T>
  static MTF_DEVICE T g(T dy, T x, T) {
    const T square = x * x;
    const T s = math::sigmoid(T(kTwoU) * (x + T(kCubic) * x * square));
    // Beyond x = 100 the slope of s is 0 and must not meet an overflowing cube.
    const T slope = square < 10000 ? x * (T(kTwoU) * (1 + T(3 * kCubic) * square)) : T(0);
    return dy * (s + slope * (s * (1 - s)));
  }
};
struct SquaredRelu {
  template <class T>
  static MTF_DEVICE T f(T x, T) {
    return x < 0 ? T(0) : x * x;
  }
  template <class T>
  static MTF_DEVICE T g(T dy, T x, T) {
    return dy * (x > 0 ? 2 * x : T(0));
  }
};

// y = f(a, b).

struct Add {
  template <class T>
  static MTF_DEVICE T f(T a, T b) {
    return a + b;
  }
};
struct Subtract {
  template <class T>
  static MTF_DEVICE T f(T a, T b) {
    return a - b;
  }
};
struct Multiply {
  template <class T>
  static MTF_DEVICE T f(T a, T b) {
    return a * b;
  }
};
struct Divide {
  template <class T>
  static MTF_DEVICE T f(T a, T b) {
    return a / b;
  }
};
struct Minimum {
  template <class T>
  static MTF_DEVICE T f(T a, T b) {
    return Min{}(a, b);
  }
};
struct Maximum {
  template <class T>
  static MTF_DEVICE T f(T a, T b) {
    return Max{}(a, b);
  }
};
/// Of integers, 0 where b is.
struct FloorDivide {
  template <class T>
  static MTF_DEVICE T f(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      return math::floor(a / b);
    } else {
      return floor_divide(a, b);
    }
  }
};
struct Modulo {
  template <class T>
  static MTF_DEVICE T f(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      const T rest = math::fmod(a, b);
      return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
    } else {
      return floor_modulo(a, b);
    }
  }
};
// a > b is b < a.
struct Less {
  template <class T>
  static MTF_DEVICE bool f(T a, T b) {
    return a < b;
  }
};
struct LessEqual {
  template <class T>
  static MTF_DEVICE bool f(T a, T b) {
    return a <= b;
  }
};
struct Equal {
  template <class T>
  static MTF_DEVICE bool f(T a, T b) {
    return a == b;
  }
};
struct NotEqual {
  template <class T>
  static MTF_DEVICE bool f(T a, T b) {
    return a != b;
  }
};
struct LogicalAnd {
  template <class T>
  static MTF_DEVICE bool f(T a, T b) {
    return a & b;
  }
};
struct LogicalOr {
  template <class T>
  static MTF_DEVICE bool f(T a, T b) {
    return a | b;
  }
};

}  // namespace mtf::cuda::formulas
