// Segments as numbers that are added to logits, for libraries that know no segments.
#pragma once

#include <cstdint>

#include "engine/backend/cuda/device/device_kernel.h"
#include "engine/backend/cuda/device/library_attention.h"

namespace mtf::cuda {

/// Writes the bias of packed rows: 0 where query and entry of a row have the same segment, else a number that
/// leaves the entry no weight. The segments of `batch` rows of `length` entries are adjacent in a row, and
/// `stride` apart from row to row; `bias` is [batch, length, bias_row(length)].
void write_segment_bias(const Launcher& launch, const int32_t* segments, int64_t stride, int64_t batch,
                        int64_t length, BFloat16* bias);

}  // namespace mtf::cuda
