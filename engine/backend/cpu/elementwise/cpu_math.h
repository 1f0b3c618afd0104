// Branch-free exp, log, tanh, ... in float32, which loops vectorise for every instruction set.
// The relative error is at most 2e-7; infinities, NaN and subnormal arguments give what the exact function
// gives. Overloads for double, sin, cos and pow are those of reproducible_math.h, so kernels are written once
// for both types.
//
//   for (int64_t i = 0; i < n; ++i) y[i] = CpuMath::exp(x[i] - maximum);
//
// Kernel files let the compiler reassociate sums and products; each formula keeps its accuracy under any such
// order.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "engine/base/dispatch.h"
#include "engine/base/reproducible_math.h"

namespace mtf {

/// The functions used by the CPU's kernels and by the formulas of engine/ops/unary_formulas.h.
struct CpuMath {
  template <class T>
  MTF_INLINE T sqrt(T x) {
    return std::sqrt(x);
  }
  template <class T>
  MTF_INLINE T sin(T x) {
    return reproducible::sin(x);
  }
  template <class T>
  MTF_INLINE T cos(T x) {
    return reproducible::cos(x);
  }
  template <class T>
  MTF_INLINE T pow(T x, T p) {
    return reproducible::pow(x, p);
  }
  template <class T>
  MTF_INLINE T floor(T x) {
    return std::floor(x);
  }
  template <class T>
  MTF_INLINE T fmod(T x, T y) {
    return std::fmod(x, y);
  }

  /// a b + c, rounded once where the instruction set has a fused multiply-add, else twice: `portable` would
  /// call a function of the C library for each element.
  template <class T>
  MTF_INLINE T multiply_add(T a, T b, T c) {
    return a * b + c;
  }

  MTF_INLINE double exp(double x) { return reproducible::exp(x); }
  MTF_INLINE double log(double x) { return reproducible::log(x); }
  MTF_INLINE double log1p(double x) { return reproducible::log1p(x); }
  MTF_INLINE double expm1(double x) { return reproducible::expm1(x); }
  MTF_INLINE double tanh(double x) { return reproducible::tanh(x); }

  /// 2^n for -126 <= n <= 127.
  MTF_INLINE float power_of_two(int32_t n) {
    return std::bit_cast<float>(static_cast<uint32_t>(n + 127) << 23);
  }

  /// ln(2) = 355/512 - 2.1219444e-4. Multiples of the first part are exact.
  static constexpr float kLn2High = 0x1p-9f;  // factor of 355 n, like kLn2Low
  static constexpr float kLn2Low = -2.12194440e-4f / 355;

  /// x if |x| <= bound, else (also for NaN) a value of magnitude `bound`. It uses integers because branches
  /// would not be vectorised.
  MTF_INLINE float bounded(float x, float bound) {
    const uint32_t bits = std::bit_cast<uint32_t>(x);
    const int32_t magnitude =
        std::min(static_cast<int32_t>(bits & 0x7fffffffu), std::bit_cast<int32_t>(bound));
    return std::bit_cast<float>(static_cast<uint32_t>(magnitude) | (bits & 0x80000000u));
  }

  /// The reduction x = n ln(2) + r with about |r| <= ln(2)/2: n, and e^r - 1 from a polynomial of degree 7
  /// (Cephes, expf).
  struct ReducedExponential {
    int32_t n;
    float power_minus_one;
  };

  MTF_INLINE ReducedExponential reduce_exponential(float x) {
    const float quotient = x * 1.44269504088896341f;
    const int32_t n = static_cast<int32_t>(quotient + std::copysign(0.5f, quotient));
    const float n355 = static_cast<float>(n * 355);
    // The difference is exact and far below 1. The bound only keeps the compiler from adding the parts of n
    // ln(2) first.
    const float r = bounded(x - n355 * kLn2High, 1.0f) - n355 * kLn2Low;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    return {n, p * r * r + r};
  }

  /// e^x = 2^n e^r.
  MTF_INLINE float exp(float x) {
    // At the bounds the result is 0 or infinity; a NaN is restored at the end.
    const auto [n, power_minus_one] = reduce_exponential(bounded(x, 104.0f));
    // |n| reaches 150, beyond the exponents of normal numbers. Half of n goes into the exponent, half into a
    // factor.
    const int32_t half = n >> 1;
    const uint32_t mantissa = std::bit_cast<uint32_t>(power_minus_one + 1.0f);
    const float y =
        std::bit_cast<float>(mantissa + (static_cast<uint32_t>(half) << 23)) * power_of_two(n - half);
    return x != x ? x : y;
  }

  /// e^x for x <= 0 (and rounding errors above), in half the time of exp: 2^n 2^f with |f| <= 1/2 and a
  /// minimax polynomial of degree 6. The relative error is at most 1e-7 (1 + |x|). The result is 0 from about
  /// -87 on, and e^0 is exactly 1.
  MTF_INLINE float exp_of_nonpositive(float x) {
    const float t = x * 1.44269504088896341f;
    const auto n = static_cast<int32_t>(t - 0.5f);
    const float f = t - static_cast<float>(n);
    float p = 1.559467782e-4f;
    p = p * f + 1.340664341e-3f;
    p = p * f + 9.617692791e-3f;
    p = p * f + 5.550310388e-2f;
    p = p * f + 2.402265221e-1f;
    p = p * f + 6.931472421e-1f;
    p = p * f + 1.0f;
    const uint32_t bits = std::bit_cast<uint32_t>(p) + (static_cast<uint32_t>(n) << 23);
    // For magnitudes from kFirst to infinity the result is 0; a NaN stays. Branches would not be vectorised.
    constexpr auto kFirst = std::bit_cast<uint32_t>(125.5f), kLast = 0x7f800000u;
    const uint32_t magnitude = std::bit_cast<uint32_t>(t) & 0x7fffffffu;
    return std::bit_cast<float>(bits & -static_cast<uint32_t>(magnitude - kFirst > kLast - kFirst));
  }
  MTF_INLINE double exp_of_nonpositive(double x) { return reproducible::exp(x); }

  /// e^x - 1 for x <= 0, accurate also for tiny x.
  MTF_INLINE float expm1(float x) {
    const auto [n, power_minus_one] = reduce_exponential(bounded(x, 104.0f));
    const float difference = exp(x) - 1.0f;
    const float y = n == 0 ? power_minus_one : difference;
    return x != x ? x : y;
  }

  /// The natural logarithm: x = 2^e (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2), and a polynomial of degree 11
  /// (Cephes, logf).
  MTF_INLINE float log(float x) {
    const bool subnormal = x < std::numeric_limits<float>::min();
    const uint32_t bits = std::bit_cast<uint32_t>(subnormal ? x * 0x1p23f : x);
    const uint32_t shifted = bits - 0x3f3504f3u;  // relative to sqrt(1/2), where the exponent steps
    const int32_t e = (static_cast<int32_t>(shifted) >> 23) - (subnormal ? 23 : 0);
    const float f = std::bit_cast<float>((shifted & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
    const float square = f * f;
    float p = 7.0376836292e-2f;
    p = p * f - 1.1514610310e-1f;
    p = p * f + 1.1676998740e-1f;
    p = p * f - 1.2420140846e-1f;
    p = p * f + 1.4249322787e-1f;
    p = p * f - 1.6668057665e-1f;
    p = p * f + 2.0000714765e-1f;
    p = p * f - 2.4999993993e-1f;
    p = p * f + 3.3333331174e-1f;
    const float e355 = static_cast<float>(e * 355);
    const float y = f + (p * f * square + e355 * kLn2Low - 0.5f * square) + e355 * kLn2High;
    const float infinity = std::numeric_limits<float>::infinity();
    const float positive = x < infinity ? y : x;  // infinity and NaN stay
    const float at_zero = x == 0 ? -infinity : positive;
    return x < 0 ? std::numeric_limits<float>::quiet_NaN() : at_zero;
  }

  /// log(1 + x) = 2 artanh(s) with s = x / (2 + x), from its series up to s^15, where 2 s = x - s x. For 0 <=
  /// x <= 1, accurate also for tiny x.
  MTF_INLINE float log1p(float x) {
    const float s = x / (2.0f + x);
    const float square = s * s;
    float p = 2.0f / 15;
    p = p * square + 2.0f / 13;
    p = p * square + 2.0f / 11;
    p = p * square + 2.0f / 9;
    p = p * square + 2.0f / 7;
    p = p * square + 2.0f / 5;
    p = p * square + 2.0f / 3;
    return x - s * (x - p * square);
  }

  /// An odd polynomial (Cephes, tanhf) below 0.625, and 1 - 2 / (e^2|x| + 1) above.
  MTF_INLINE float tanh(float x) {
    const float magnitude = x < 0 ? -x : x;
    const float square = x * x;
    float p = -5.70498872745e-3f;
    p = p * square + 2.06390887954e-2f;
    p = p * square - 5.37397155531e-2f;
    p = p * square + 1.33314422036e-1f;
    p = p * square - 3.33332819422e-1f;
    const float near = p * square * x + x;
    const float far = 1.0f - 2.0f / (exp(2.0f * magnitude) + 1.0f);
    const float signed_far = x < 0 ? -far : far;
    return magnitude < 0.625f ? near : signed_far;
  }

  /// 1 / (1 + e^-x).
  template <class T>
  MTF_INLINE T sigmoid(T x) {
    return T(1) / (T(1) + exp(-x));
  }

  /// log(1 + e^x) without overflow.
  template <class T>
  MTF_INLINE T softplus(T x) {
    const T magnitude = x < 0 ? -x : x;
    return (x < 0 ? T(0) : x) + log1p(exp(-magnitude));
  }
};

}  // namespace mtf
