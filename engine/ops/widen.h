// Gradients of weights that layers see in bfloat16: what is summed in float32 stays float32.
#pragma once

#include "engine/graph/tensor.h"

namespace mtf {

/// x as `dtype`. Where that is float32 and x is a bfloat16 sum (of products, of gathered rows, over
/// dimensions), the sum is made again with a float32 result instead of being rounded in between: partial sums
/// of positions then add up in float32. What is not used of the two is not run.
Tensor widened(const Tensor& x, DType dtype);

}  // namespace mtf
