// Values of 0-dimensional tensors in host memory as numbers.
#pragma once

#include <array>
#include <cstddef>

#include "engine/core/dtype.h"

namespace mtf {

/// The value of an element; bool is 0 or 1.
double scalar_value(DType dtype, const std::byte* data);
/// The bytes of `value` as an element of a type that inputs have: kFloat32, kFloat64, kInt32, kInt64, or kBool, true
/// unless `value` is 0.
std::array<std::byte, 8> scalar_bytes(DType dtype, double value);

}  // namespace mtf
