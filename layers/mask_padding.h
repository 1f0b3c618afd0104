// Zeros at padding positions.
#pragma once

#include "layers/context.h"

namespace mtf {

/// x [batch, length, ...] with zeros where the sequence has padding; x itself without segments.
LayerTensor mask_padding(Context& context, const LayerTensor& x);

}  // namespace mtf
