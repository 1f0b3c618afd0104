// Copies rectangles of elements between row-major arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/core/shape.h"

namespace mtf {

/// The place of a rectangle in a row-major array: the index of its first element along each axis. Without
/// indices the rectangle is the whole array.
struct RectanglePlace {
  const Shape& array;
  std::span<const int64_t> begin = {};
};

/// Copies the elements of a rectangle of shape `rectangle` from one array to another; dimensions correspond
/// by position. Allocates no memory.
void copy_rectangle(const Shape& rectangle, size_t element_bytes, const std::byte* from,
                    const RectanglePlace& from_place, std::byte* to, const RectanglePlace& to_place);

/// The same from bytes, of which 255 becomes 1 (unit_interval.h), to float32.
void scale_rectangle(const Shape& rectangle, const std::byte* from, const RectanglePlace& from_place,
                     float* to, const RectanglePlace& to_place);

}  // namespace mtf
