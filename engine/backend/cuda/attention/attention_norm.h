// Soft caps and exponentials of logits, and the normalization of their sum to a softmax.
#pragma once

#include <limits>

#include "engine/backend/cuda/attention/attention_view.h"
#include "engine/backend/cuda/attention/tile_mma.h"
#include "engine/backend/cuda/device/math.h"

namespace mtf::cuda {

inline constexpr float kLog2E = 1.44269504088896341f;

MTF_DEVICE float exponential(float x) { return approximate_exp2(x * kLog2E); }
MTF_DEVICE double exponential(double x) { return Math::exp(x); }
/// The maximum; if one argument is NaN, the other.
MTF_DEVICE float larger(float a, float b) { return ::fmaxf(a, b); }
MTF_DEVICE double larger(double a, double b) { return ::fmax(a, b); }

/// The bound of q.k, where AttentionView::has_soft_cap().
template <class C>
class SoftCap {
 public:
  MTF_DEVICE explicit SoftCap(const AttentionView& view)
      : cap_(static_cast<C>(view.soft_cap)), share_(static_cast<C>(view.share_of_cap)) {}
  MTF_DEVICE C operator()(C product) const { return cap_ * Math::tanh(product * share_); }
  /// The derivative of the function at the product that it has made `capped` of.
  MTF_DEVICE C slope(C capped) const {
    const C share = capped * share_;
    return C(1) - share * share;
  }

 private:
  C cap_, share_;
};

/// Computes the scale and log-sum of a row from its sum of exp(logit - top), `sum`, and adds the extra logit.
template <class C>
struct AttentionNorm {
  C scale;    ///< factor of the summed values
  C log_sum;  ///< log-sum of the logits, relative to the row's smallest mask

  /// `least` is Sight::least.
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
    // A row that sees only hidden entries sums all values.
    scale = least > 0 && !view.has_extra_logit() ? C(1) : factor / sum;
  }
};

}  // namespace mtf::cuda
