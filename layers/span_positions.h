// Places of a decoder's tokens in the text of the encoder, where sentinels mark the spans that they stand for (T5's span
// corruption).
#pragma once

#include <cstdint>

#include "engine/graph/tensor.h"

namespace mtf {

/// For each id of the decoder the number of the encoder's ids in earlier spans of its text; ids from `first_sentinel` on
/// begin a span. ids, segment: int32 [batch, length]; memory_ids, memory_segment: int32 [batch, memory_length].
Tensor span_positions(const Tensor& ids, const Tensor& segment, const Tensor& memory_ids,
                      const Tensor& memory_segment, int64_t first_sentinel);

}  // namespace mtf
