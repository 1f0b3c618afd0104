// Division of integers that rounds down (division by 0 gives 0) or up. The kernels of every device use it.
#pragma once

#include <cstdint>
#include <type_traits>

namespace mtf {

template <class T>
constexpr T floor_divide(T a, T b) {
  if (b == 0) return 0;
  if (b == -1) return static_cast<T>(-static_cast<std::make_unsigned_t<T>>(a));  // the lowest number wraps
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

template <class T>
constexpr T floor_modulo(T a, T b) {
  if (b == 0 || b == -1) return 0;
  const T rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

/// a / b, rounded up. a >= 0, b > 0.
constexpr int64_t ceil_divide(int64_t a, int64_t b) { return (a + b - 1) / b; }
/// The least multiple of b that is not below a. a >= 0, b > 0.
constexpr int64_t round_up(int64_t a, int64_t b) { return ceil_divide(a, b) * b; }

}  // namespace mtf
