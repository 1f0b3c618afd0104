// The formulas y = f(a, b) of the functions of two tensors (engine/ops/binary.h), for every backend.
// kOperands lists the types that a and b may have.
#pragma once

#include <type_traits>

#include "engine/base/integer_division.h"
#include "engine/ops/formula.h"

/// Lists all functions: X(formula, name of the operation).
// clang-format off
#define MTF_BINARY_FUNCTIONS(X)         \
  X(Add, add)                           \
  X(Subtract, subtract)                 \
  X(Multiply, multiply)                 \
  X(Divide, divide)                     \
  X(Minimum, minimum)                   \
  X(Maximum, maximum)                   \
  X(FloorDivide, floor_divide)          \
  X(Modulo, modulo)                     \
  X(Less, less)                         \
  X(Greater, greater)                   \
  X(LessEqual, less_equal)              \
  X(GreaterEqual, greater_equal)        \
  X(Equal, equal)                       \
  X(NotEqual, not_equal)                \
  X(LogicalAnd, logical_and)            \
  X(LogicalOr, logical_or)
// clang-format on

namespace mtf::formulas {

template <class Math>
struct Add {
  static constexpr unsigned kOperands = kNumbers;
  template <class T>
  MTF_FORMULA T f(T a, T b) {
    return a + b;
  }
};
template <class Math>
struct Subtract {
  static constexpr unsigned kOperands = kNumbers;
  template <class T>
  MTF_FORMULA T f(T a, T b) {
    return a - b;
  }
};
template <class Math>
struct Multiply {
  static constexpr unsigned kOperands = kNumbers;
  template <class T>
  MTF_FORMULA T f(T a, T b) {
    return a * b;
  }
};
template <class Math>
struct Divide {
  static constexpr unsigned kOperands = kFloats;
  template <class T>
  MTF_FORMULA T f(T a, T b) {
    return a / b;
  }
};
/// NaN if one operand is NaN.
template <class Math>
struct Minimum {
  static constexpr unsigned kOperands = kNumbers;
  template <class T>
  MTF_FORMULA T f(T a, T b) {
    return a < b || a != a ? a : b;
  }
};
template <class Math>
struct Maximum {
  static constexpr unsigned kOperands = kNumbers;
  template <class T>
  MTF_FORMULA T f(T a, T b) {
    return a > b || a != a ? a : b;
  }
};
/// The quotient of integers by 0 is 0.
template <class Math>
struct FloorDivide {
  static constexpr unsigned kOperands = kNumbers;
  template <class T>
  MTF_FORMULA T f(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      return Math::floor(a / b);
    } else {
      return floor_divide(a, b);
    }
  }
};
template <class Math>
struct Modulo {
  static constexpr unsigned kOperands = kNumbers;
  template <class T>
  MTF_FORMULA T f(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      const T rest = Math::fmod(a, b);
      return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
    } else {
      return floor_modulo(a, b);
    }
  }
};
template <class Math>
struct Less {
  static constexpr unsigned kOperands = kNumbers;
  template <class T>
  MTF_FORMULA bool f(T a, T b) {
    return a < b;
  }
};
template <class Math>
struct Greater {
  static constexpr unsigned kOperands = kNumbers;
  template <class T>
  MTF_FORMULA bool f(T a, T b) {
    return a > b;
  }
};
template <class Math>
struct LessEqual {
  static constexpr unsigned kOperands = kNumbers;
  template <class T>
  MTF_FORMULA bool f(T a, T b) {
    return a <= b;
  }
};
template <class Math>
struct GreaterEqual {
  static constexpr unsigned kOperands = kNumbers;
  template <class T>
  MTF_FORMULA bool f(T a, T b) {
    return a >= b;
  }
};
template <class Math>
struct Equal {
  static constexpr unsigned kOperands = kNumbers | kBools;
  template <class T>
  MTF_FORMULA bool f(T a, T b) {
    return a == b;
  }
};
template <class Math>
struct NotEqual {
  static constexpr unsigned kOperands = kNumbers | kBools;
  template <class T>
  MTF_FORMULA bool f(T a, T b) {
    return a != b;
  }
};
template <class Math>
struct LogicalAnd {
  static constexpr unsigned kOperands = kBools;
  template <class T>
  MTF_FORMULA bool f(T a, T b) {
    return a & b;
  }
};
template <class Math>
struct LogicalOr {
  static constexpr unsigned kOperands = kBools;
  template <class T>
  MTF_FORMULA bool f(T a, T b) {
    return a | b;
  }
};

}  // namespace mtf::formulas
