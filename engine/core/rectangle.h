// Copies rectangles of elements between row-major arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/core/shape.h"

namespace mtf {

/// Where a rectangle lies in a row-major array: index of its first element along each axis. No indices: the
/// rectangle is the array.
struct RectanglePlace {
  const Shape& array;
  std::span<const int64_t> begin = {};
};

/// Copies the elements of a rectangle of shape `rectangle`; dimensions are matched by position. Allocates
/// nothing.
void copy_rectangle(const Shape& rectangle, size_t element_bytes, const std::byte* from,
                    const RectanglePlace& from_place, std::byte* to, const RectanglePlace& to_place);

}  // namespace mtf
