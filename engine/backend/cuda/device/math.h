// Functions of float and double that kernels share: CUDA's own with full accuracy (a few units in the last
// place), and functions made of them. This is text for every compiler: kernels, the emulator, and generated
// kernels.
#pragma once

#include <cmath>

#include "engine/backend/cuda/device/block.h"

namespace mtf::cuda {

/// The functions used by kernels and by the formulas of engine/ops/unary_formulas.h.
struct Math {
  static MTF_DEVICE float sqrt(float x) { return ::sqrtf(x); }
  static MTF_DEVICE double sqrt(double x) { return ::sqrt(x); }
  static MTF_DEVICE float exp(float x) { return ::expf(x); }
  static MTF_DEVICE double exp(double x) { return ::exp(x); }
  /// e^x for x <= 0 that is added to e^0: with an error of |x| units in the last place.
#if defined(__CUDA_ARCH__)
  static MTF_DEVICE float exp_in_sum(float x) { return __expf(x); }
#else
  static MTF_DEVICE float exp_in_sum(float x) { return ::expf(x); }
#endif
  static MTF_DEVICE double exp_in_sum(double x) { return ::exp(x); }
  static MTF_DEVICE float expm1(float x) { return ::expm1f(x); }
  static MTF_DEVICE double expm1(double x) { return ::expm1(x); }
  static MTF_DEVICE float log(float x) { return ::logf(x); }
  static MTF_DEVICE double log(double x) { return ::log(x); }
  static MTF_DEVICE float log1p(float x) { return ::log1pf(x); }
  static MTF_DEVICE double log1p(double x) { return ::log1p(x); }
  static MTF_DEVICE float sin(float x) { return ::sinf(x); }
  static MTF_DEVICE double sin(double x) { return ::sin(x); }
  static MTF_DEVICE float cos(float x) { return ::cosf(x); }
  static MTF_DEVICE double cos(double x) { return ::cos(x); }
  static MTF_DEVICE float tanh(float x) { return ::tanhf(x); }
  static MTF_DEVICE double tanh(double x) { return ::tanh(x); }
  static MTF_DEVICE float pow(float x, float p) { return ::powf(x, p); }
  static MTF_DEVICE double pow(double x, double p) { return ::pow(x, p); }
  static MTF_DEVICE float floor(float x) { return ::floorf(x); }
  static MTF_DEVICE double floor(double x) { return ::floor(x); }
  static MTF_DEVICE float fmod(float x, float y) { return ::fmodf(x, y); }
  static MTF_DEVICE double fmod(double x, double y) { return ::fmod(x, y); }

  /// a * b and a + b, each rounded: no compiler contracts them with other operations.
#if defined(__CUDA_ARCH__)
  static MTF_DEVICE float rounded_product(float a, float b) { return __fmul_rn(a, b); }
  static MTF_DEVICE double rounded_product(double a, double b) { return __dmul_rn(a, b); }
  static MTF_DEVICE float rounded_sum(float a, float b) { return __fadd_rn(a, b); }
  static MTF_DEVICE double rounded_sum(double a, double b) { return __dadd_rn(a, b); }
#else
  template <class T>
  static MTF_DEVICE T rounded_product(T a, T b) {
    return a * b;
  }
  template <class T>
  static MTF_DEVICE T rounded_sum(T a, T b) {
    return a + b;
  }
#endif
  /// a b + c, rounded once.
  static MTF_DEVICE float multiply_add(float a, float b, float c) { return ::fmaf(a, b, c); }
  static MTF_DEVICE double multiply_add(double a, double b, double c) { return ::fma(a, b, c); }

  /// 1 / (1 + e^-x).
  template <class T>
  static MTF_DEVICE T sigmoid(T x) {
    return T(1) / (T(1) + exp(-x));
  }

  /// log(1 + e^x) without overflow.
  template <class T>
  static MTF_DEVICE T softplus(T x) {
    const T magnitude = x < 0 ? -x : x;
    return (x < 0 ? T(0) : x) + log1p(exp(-magnitude));
  }
};

}  // namespace mtf::cuda
