// How many choices fall on each expert.
#pragma once

#include "engine/graph/tensor.h"

namespace mtf {

/// expert: int32 [.., choice], ids out of range count for nobody -> [rows.., experts] of `dtype`, the number of ids that
/// fall on each expert. `rows`: dimensions of `expert`. No gradient passes.
Tensor count_choices(const Tensor& expert, const Dimension& experts, const Shape& rows, DType dtype);

}  // namespace mtf
