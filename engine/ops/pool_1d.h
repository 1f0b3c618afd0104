// Pooling of one dimension by a factor: windows that do not overlap.
#pragma once

#include "engine/graph/graph.h"
#include "engine/ops/dimension_name.h"

namespace mtf {

enum class Pooling { kMean, kMax, kMin, kFirst };

/// Each run of `size` entries of `dimension` becomes one: [..., dimension=n, ...] -> [..., dimension=n/size,
/// ...]. Throws Error when `size` does not divide n.
Tensor pool_tensor_1d(const Tensor& x, DimensionName dimension, Pooling pooling = Pooling::kMean,
                      int64_t size = 2);

/// Every `size`-th entry, the first included.
Tensor stride_tensor_1d(const Tensor& x, DimensionName dimension, int64_t size = 2);

}  // namespace mtf
