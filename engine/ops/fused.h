// What fused operations share.
#pragma once

#include "engine/graph/operation.h"

namespace mtf {

/// float32 for bfloat16, else `dtype` itself: the dtype of sums, statistics, losses and optimizer slots.
inline DType accumulation_dtype(DType dtype) { return dtype == DType::kBFloat16 ? DType::kFloat32 : dtype; }

/// The gradient of an operation that is a gradient itself, or an update: an Error, so that nothing is
/// silently left out.
[[noreturn]] inline void not_differentiable(const Operation& operation) {
  shape_error(operation.name(), "cannot be differentiated",
              "there are no second derivatives of fused operations");
}

}  // namespace mtf
