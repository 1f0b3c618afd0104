// Elements of one type as those of another: variables of float32 and bfloat16 in memory and in files.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/core/dtype.h"

namespace mtf {

/// True between equal types, and between float32 and bfloat16.
bool convertible(DType from, DType to);

/// Copies `count` elements; a type that is narrower rounds to nearest even. The types must be convertible.
void convert_elements(const std::byte* from, DType from_type, std::byte* to, DType to_type, int64_t count);

}  // namespace mtf
