#include "engine/core/rectangle.h"

#include <cstring>

#include "engine/core/unit_interval.h"

namespace mtf {
namespace {

/// Returns the offset, in elements, of an element of the rectangle in the array. `index` is its row-major
/// index over the first `axes` axes of the rectangle; along the other axes it is the first element.
int64_t offset_in(const RectanglePlace& place, const Shape& rectangle, int axes, int64_t index) {
  int64_t offset = 0, stride = 1;
  for (int axis = rectangle.rank() - 1; axis >= 0; --axis) {
    int64_t position = place.begin.empty() ? 0 : place.begin[axis];
    if (axis < axes) {
      position += index % rectangle[axis].size;
      index /= rectangle[axis].size;
    }
    offset += position * stride;
    stride *= place.array[axis].size;
  }
  return offset;
}

/// Calls `use` for each run of elements that is contiguous in both arrays, with its places in them and its length.
template <class Use>
void for_each_run(const Shape& rectangle, const RectanglePlace& from_place, const RectanglePlace& to_place,
                  const Use& use) {
  const auto whole = [&](int axis) {
    return rectangle[axis].size == from_place.array[axis].size &&
           rectangle[axis].size == to_place.array[axis].size;
  };
  // Elements along the axes that are whole in both arrays, and along the one before these, are contiguous.
  int axes = rectangle.rank();
  int64_t piece = 1;
  while (axes > 0 && whole(axes - 1)) piece *= rectangle[--axes].size;
  if (axes > 0) piece *= rectangle[--axes].size;
  const int64_t pieces = rectangle.size() / piece;
  for (int64_t i = 0; i < pieces; ++i)
    use(offset_in(from_place, rectangle, axes, i), offset_in(to_place, rectangle, axes, i), piece);
}

}  // namespace

void copy_rectangle(const Shape& rectangle, size_t element_bytes, const std::byte* from,
                    const RectanglePlace& from_place, std::byte* to, const RectanglePlace& to_place) {
  const auto width = static_cast<int64_t>(element_bytes);
  for_each_run(rectangle, from_place, to_place, [&](int64_t source, int64_t target, int64_t count) {
    std::memcpy(to + target * width, from + source * width, static_cast<size_t>(count * width));
  });
}

void scale_rectangle(const Shape& rectangle, const std::byte* from, const RectanglePlace& from_place,
                     float* to, const RectanglePlace& to_place) {
  for_each_run(rectangle, from_place, to_place, [&](int64_t source, int64_t target, int64_t count) {
    to_unit_interval(from + source, 1, count, to + target);
  });
}

}  // namespace mtf
