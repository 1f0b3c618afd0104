// Keeps float32 sums in the gradients of weights that layers read as bfloat16.
#pragma once

#include "engine/graph/tensor.h"

namespace mtf {

/// Returns x as `dtype`. If that is float32 and x is a bfloat16 sum (of products, of gathered rows, over
/// dimensions), the sum is computed with a float32 result instead of being rounded in between, so that
/// partial sums of positions are added in float32. The sum that is then unused does not run.
Tensor widened(const Tensor& x, DType dtype);

}  // namespace mtf
