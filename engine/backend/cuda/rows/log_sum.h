// The sum of exponentials of a row in one pass, relative to the largest logit so far (Milakov and Gimelshein,
// Online normalizer calculation for softmax, 2018).
#pragma once

#include <limits>

#include "engine/backend/cuda/device/block.h"
#include "engine/backend/cuda/device/math.h"

namespace mtf::cuda {

/// The sum of exp(x - reference()).
template <class A>
struct LogSum {
  static constexpr A kNone = -std::numeric_limits<A>::infinity();

  A top = kNone;  ///< the largest x; ignores NaN, which makes the sum NaN
  A sum = 0;

  template <class Each>
  MTF_DEVICE LogSum each(Each f) const {
    const A new_top = f(top);
    return {new_top, f(sum)};
  }

  /// The largest x; 0 if there is nothing but -infinity.
  MTF_DEVICE A reference() const { return top == kNone ? A(0) : top; }
  MTF_DEVICE A log() const { return Math::log(sum) + reference(); }

  template <int N>
  MTF_DEVICE void add(const A (&x)[N]) {
    const A before = top;
    for (int n = 0; n < N; ++n) top = x[n] > top ? x[n] : top;
    const A reference = this->reference();
    A terms[N];
    for (int n = 0; n < N; ++n) terms[n] = Math::exp_in_sum(x[n] - reference);
    for (int width = N / 2; width > 0; width /= 2) {
      for (int n = 0; n < width; ++n) terms[n] += terms[n + width];
    }
    if (top > before) sum *= Math::exp(before - reference);  // seldom after a few terms
    sum += terms[0];
  }

  MTF_DEVICE LogSum operator+(const LogSum& other) const {
    const bool first = top >= other.top;
    const LogSum high = first ? *this : other, low = first ? other : *this;
    // The difference of equal infinities would be NaN.
    return {high.top, high.sum + low.sum * (low.top == high.top ? A(1) : Math::exp(low.top - high.top))};
  }
};

}  // namespace mtf::cuda
