// Zeros at padding positions.
#pragma once

#include "layers/context.h"

namespace mtf {

/// Tells the layers of a sequence which positions see each other, and which are padding (0). segment: int32 [batch, length].
void set_segments(Sequence& sequence, const Tensor& segment);

/// x [batch, length, ...] with zeros where the sequence has padding; x itself without segments.
LayerTensor mask_padding(Context& context, const LayerTensor& x);

}  // namespace mtf
