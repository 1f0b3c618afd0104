// Logits of models whose vocabularies are padded to different sizes.
#pragma once

#include "engine/graph/tensor.h"

namespace mtf {

/// Cuts the end off the dimension of x that is called as `dimension`, or adds zeros, so that it has its size. Layouts may
/// split the dimension: another size is made of the whole of it.
Tensor resized(const Tensor& x, const Dimension& dimension);

}  // namespace mtf
