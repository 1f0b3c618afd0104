// Converts arrays between float32 and bfloat16: a variable may have one type in memory and another in a file.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/core/dtype.h"

namespace mtf {

/// True if the types are equal, or are float32 and bfloat16.
bool convertible(DType from, DType to);

/// Copies `count` elements; a conversion to a narrower type rounds to nearest even. The types must be
/// convertible().
void convert_elements(const std::byte* from, DType from_type, std::byte* to, DType to_type, int64_t count);

}  // namespace mtf
