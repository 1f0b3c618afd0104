// Helpers that fused operations share.
#pragma once

#include "engine/graph/operation.h"

namespace mtf {

/// Returns the dtype of sums, statistics, losses and optimizer slots: float32 for bfloat16, otherwise
/// `dtype`.
inline DType accumulation_dtype(DType dtype) { return dtype == DType::kBFloat16 ? DType::kFloat32 : dtype; }

/// Throws Error, as the gradient of an operation that is itself a gradient or an update, so that no gradient
/// is silently omitted.
[[noreturn]] inline void not_differentiable(const Operation& operation) {
  shape_error(operation.name(), "cannot be differentiated",
              "there are no second derivatives of fused operations");
}

}  // namespace mtf
