// What attention adds to its logits, as dense tensors: the composed form uses it, and layers that mix logits themselves.
#pragma once

#include "engine/ops/attention.h"

namespace mtf {

/// Sum over the masks of -1e9 where one hides an entry: [memory] with some of the queries' dimensions, of `dtype`. Null
/// where there is no mask. Of inputs.q only the length counts.
Tensor attention_masks(const AttentionInputs& inputs, const AttentionOptions& options,
                       const Dimension& memory, DType dtype);

/// The relative bias by inputs.bias_table, which must be there: its dimensions, with positions in place of the buckets.
Tensor attention_bias(const AttentionInputs& inputs, const AttentionOptions& options, const Dimension& memory,
                      DType dtype);

}  // namespace mtf
