// The arithmetic of reductions. Kernels load elements as Lane, combine some of them, and combine these
// results as Total. kIdentity is the result for no elements.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "engine/backend/element.h"

namespace mtf::reductions {

/// Integers are added in 64 bits; floats in blocks (Lane) whose sums are added in double (Total).
template <class T>
struct Sum {
  using Lane = std::conditional_t<std::is_integral_v<T>, int64_t, Computed<T>>;
  using Total = std::conditional_t<std::is_integral_v<T>, int64_t, double>;
  static constexpr Total kIdentity = 0;
  [[gnu::always_inline]] static constexpr Lane load(T x) { return static_cast<Lane>(widen(x)); }
  template <class V>
  [[gnu::always_inline]] static constexpr V combine(V a, V b) {
    return a + b;
  }
};

/// Squares of floats are exact in double, and their sum nearly so: any split gives the same norm. Blocks are
/// summed separately, so that they may also be added up elsewhere (engine/backend/squares.h).
template <class T>
struct SumOfSquares {
  using Lane = double;
  using Total = double;
  static constexpr double kIdentity = 0;
  [[gnu::always_inline]] static constexpr double load(T x) {
    const double value = widen(x);
    return value * value;
  }
  [[gnu::always_inline]] static constexpr double combine(double a, double b) { return a + b; }
};

/// Extrema; NaN if any element is NaN.
template <class T>
struct Max {
  using Lane = Computed<T>;
  using Total = Lane;
  static constexpr Lane kIdentity = std::numeric_limits<Lane>::has_infinity
                                        ? -std::numeric_limits<Lane>::infinity()
                                        : std::numeric_limits<Lane>::lowest();
  [[gnu::always_inline]] static constexpr Lane load(T x) { return widen(x); }
  [[gnu::always_inline]] static constexpr Lane combine(Lane a, Lane b) { return a > b || a != a ? a : b; }
};

template <class T>
struct Min {
  using Lane = Computed<T>;
  using Total = Lane;
  static constexpr Lane kIdentity = std::numeric_limits<Lane>::has_infinity
                                        ? std::numeric_limits<Lane>::infinity()
                                        : std::numeric_limits<Lane>::max();
  [[gnu::always_inline]] static constexpr Lane load(T x) { return widen(x); }
  [[gnu::always_inline]] static constexpr Lane combine(Lane a, Lane b) { return a < b || a != a ? a : b; }
};

/// Logical and (the minimum) and or (the maximum) of bools.
template <class T>
struct All {
  using Lane = bool;
  using Total = bool;
  static constexpr bool kIdentity = true;
  [[gnu::always_inline]] static constexpr bool load(T x) { return x; }
  [[gnu::always_inline]] static constexpr bool combine(bool a, bool b) { return a & b; }
};
template <class T>
struct Any {
  using Lane = bool;
  using Total = bool;
  static constexpr bool kIdentity = false;
  [[gnu::always_inline]] static constexpr bool load(T x) { return x; }
  [[gnu::always_inline]] static constexpr bool combine(bool a, bool b) { return a | b; }
};

}  // namespace mtf::reductions
