// Dropout where the model is trained.
#pragma once

#include "layers/context.h"

namespace mtf {

/// Zeros entries of x with probability `rate` and scales the others by 1 / (1 - rate); entries that differ
/// only in the dimensions `share` live and die together. The identity in evaluation.
Tensor dropout(Context& context, const Tensor& x, double rate, const Shape& share = {});

}  // namespace mtf
