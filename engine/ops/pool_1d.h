// Pooling along one dimension over windows that do not overlap.
#pragma once

#include <cstdint>

#include "engine/graph/graph.h"
#include "engine/ops/dimension_name.h"

namespace mtf {

enum class Pooling { kMean, kMax, kMin, kFirst };

/// Reduces each run of `size` entries of `dimension` to one: [..., dimension=n, ...] -> [...,
/// dimension=n/size, ...]. Throws Error if `size` does not divide n.
Tensor pool_tensor_1d(const Tensor& x, DimensionName dimension, Pooling pooling = Pooling::kMean,
                      int64_t size = 2);

/// Returns every `size`-th entry, including the first one.
Tensor stride_tensor_1d(const Tensor& x, DimensionName dimension, int64_t size = 2);

}  // namespace mtf
