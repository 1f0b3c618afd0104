// The gradient noise scale, which tells how large a batch is worth its cost: with much smaller batches twice the batch
// nearly halves the number of steps, with much larger ones it hardly lowers it. McCandlish et al., An empirical model of
// large-batch training (2018), eq. 2.9 and appendix A.1.
#pragma once

#include <cstdint>
#include <string_view>

#include "trainer/optimizer/optimizer.h"

namespace mtf {

/// What the noise is measured from: the gradients of the microbatches of one batch.
struct GradientSquares {
  Tensor
      microbatches;  ///< [], float64: the sum over the microbatches of the squared norms, each of its part of the mean
  Tensor batch;                  ///< [], the norm of their sum
  int64_t microbatch_count = 1;  ///< at least 2
  int64_t batch_size = 1;
};

/// The slots with running means of tr(covariance of an example's gradient) and |mean gradient|^2.
inline constexpr std::string_view kGradientNoise = "gradient_noise", kGradientSignal = "gradient_signal";

/// Returns the ratio of the running means, in examples ([], float32), and moves the means by this batch. With n
/// microbatches in a batch of B examples, S = n * sum |g_j|^2 and G = |sum g_j|^2, where g_j is the gradient of a
/// microbatch's mean loss divided by n:
///   signal = (n G - S) / (n - 1),  noise = (S - G) B / (n - 1)
/// Both are unbiased and either may be negative; the means forget a step as decay^age.
Tensor gradient_noise_scale(UpdateContext& context, const GradientSquares& squares, double decay);

}  // namespace mtf
