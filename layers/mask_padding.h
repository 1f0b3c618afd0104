// Zeros at padding positions.
#pragma once

#include "layers/context.h"

namespace mtf {

/// x [batch, length, ...] with zeros where the sequence has padding; x itself without segments.
Tensor mask_padding(Context& context, const Tensor& x);

}  // namespace mtf
