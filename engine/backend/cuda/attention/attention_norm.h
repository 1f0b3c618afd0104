// Exponentials of logits, and what makes a softmax of their sum.
#pragma once

#include <limits>

#include "engine/backend/cuda/attention/attention_view.h"
#include "engine/backend/cuda/attention/tile_mma.h"
#include "engine/backend/cuda/device/math.h"

namespace mtf::cuda {

inline constexpr float kLog2E = 1.44269504088896341f;

MTF_DEVICE float exponential(float x) { return approximate_exp2(x * kLog2E); }
MTF_DEVICE double exponential(double x) { return Math::exp(x); }
/// b where a is NaN, and the other way round.
MTF_DEVICE float larger(float a, float b) { return ::fmaxf(a, b); }
MTF_DEVICE double larger(double a, double b) { return ::fmax(a, b); }

/// Scales the sum of exp(logit - top) of a row, `sum`, and what was summed with it, and adds the extra logit.
template <class C>
struct AttentionNorm {
  C scale;    ///< of the sum of the values
  C log_sum;  ///< of the logits relative to the smallest mask of the row

  /// `least`: Sight::least.
  MTF_DEVICE AttentionNorm(const AttentionView& view, C top, C sum, int least) {
    if (top == -std::numeric_limits<C>::infinity()) top = 0;
    C factor = 1;
    if (view.has_extra_logit()) {
      const C extra = static_cast<C>(view.extra_logit + 1e9 * least), largest = extra > top ? extra : top;
      factor = Math::exp(top - largest);
      sum = sum * factor + Math::exp(extra - largest);
      top = largest;
    }
    log_sum = top + Math::log(sum);
    scale = least > 0 && !view.has_extra_logit() ? C(1) : factor / sum;  // such a row sums all values
  }
};

}  // namespace mtf::cuda
