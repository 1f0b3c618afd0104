// The axes of a contraction of two operands, as kernels walk over them.
#pragma once

#include <cstddef>

#include "engine/backend/kernel.h"
#include "engine/backend/strided.h"

namespace mtf {

/// Indices of a, b and the output in the strides of an axis of a contraction.
enum ContractionOperand : size_t { kA = 0, kB = 1, kOut = 2 };

/// Returns the axes of `dimensions` in the order of their strides in the operand `order`, largest first; axes that are
/// neighbours in all operands are joined.
StridedAxes<3> contraction_axes(const Shape& dimensions, const KernelContext& context,
                                ContractionOperand order);

}  // namespace mtf
