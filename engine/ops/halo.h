// Neighbourhoods of blocks: a dimension cut into blocks (which a layout may split) and a position within the
// block, each block extended by the margins of its neighbours. Only shift communicates, and only the margins.
#pragma once

#include "engine/graph/graph.h"
#include "engine/ops/dimension_name.h"

namespace mtf {

/// Each block with the `halo` entries before and after it. x: [..., blocks, ..., block_size=s, ...] -> the
/// same with block_size = s + 2 halo. Beyond the first and last block: zeros, or with `wrap` the other end. A
/// halo wider than a block reaches into further neighbours. Throws Error when halo is negative.
Tensor halo_exchange(const Tensor& x, DimensionName blocks, DimensionName block_size, int64_t halo,
                     bool wrap = false);

/// The same on the left side only: block_size = s + halo.
Tensor left_halo_exchange(const Tensor& x, DimensionName blocks, DimensionName block_size, int64_t halo,
                          bool wrap = false);

}  // namespace mtf
