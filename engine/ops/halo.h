// Halo exchange. A dimension is divided into blocks (which a layout may split) and a position within the
// block; each block is extended by the margins of its neighbours. Only shift communicates, and it sends only
// the margins.
#pragma once

#include <cstdint>

#include "engine/graph/graph.h"
#include "engine/ops/dimension_name.h"

namespace mtf {

/// Extends each block by the `halo` entries before and after it. x: [..., blocks, ..., block_size=s, ...] ->
/// the same with block_size = s + 2 halo. The entries before the first and after the last block are zeros, or
/// with `wrap` those of the other end. A halo that is wider than a block reaches into further neighbours.
/// Throws Error if halo is negative.
Tensor halo_exchange(const Tensor& x, DimensionName blocks, DimensionName block_size, int64_t halo,
                     bool wrap = false);

/// Extends each block by `left` entries before and `right` entries after it.
Tensor halo_exchange(const Tensor& x, DimensionName blocks, DimensionName block_size, int64_t left,
                     int64_t right, bool wrap);

/// Extends the blocks only on the left side: block_size = s + halo.
Tensor left_halo_exchange(const Tensor& x, DimensionName blocks, DimensionName block_size, int64_t halo,
                          bool wrap = false);

}  // namespace mtf
