#include "engine/runtime/slicing.h"

#include <cstring>

namespace mtf {
namespace {

/// Calls copy(offset in the whole, offset in the slice, bytes) for each contiguous stretch of the slice.
template <class Copy>
void for_each_stretch(const Shape& whole, const Shape& slice, const std::vector<int64_t>& begin,
                      int64_t element_bytes, const Copy& copy) {
  int unsplit = slice.rank();  // axes from here on are whole
  int64_t stretch = element_bytes;
  while (unsplit > 0 && slice[unsplit - 1].size == whole[unsplit - 1].size) stretch *= slice[--unsplit].size;
  if (unsplit > 0) stretch *= slice[--unsplit].size;
  const int64_t count = slice.size() * element_bytes / stretch;
  for (int64_t i = 0; i < count; ++i) {
    // Index along the axes before `unsplit`, last fastest, turned into an offset of the whole tensor.
    int64_t rest = i, offset = 0, scale = 1;
    for (int axis = whole.rank() - 1; axis >= 0; --axis) {
      int64_t index = begin[axis];
      if (axis < unsplit) {
        index += rest % slice[axis].size;
        rest /= slice[axis].size;
      }
      offset += index * scale;
      scale *= whole[axis].size;
    }
    copy(offset * element_bytes, i * stretch, static_cast<size_t>(stretch));
  }
}

}  // namespace

void copy_to_slice(const Shape& whole, const Shape& slice, const std::vector<int64_t>& begin,
                   size_t element_bytes, const std::byte* from, std::byte* to) {
  for_each_stretch(whole, slice, begin, static_cast<int64_t>(element_bytes),
                   [&](int64_t in_whole, int64_t in_slice, size_t bytes) {
                     std::memcpy(to + in_slice, from + in_whole, bytes);
                   });
}

void copy_from_slice(const Shape& whole, const Shape& slice, const std::vector<int64_t>& begin,
                     size_t element_bytes, const std::byte* from, std::byte* to) {
  for_each_stretch(whole, slice, begin, static_cast<int64_t>(element_bytes),
                   [&](int64_t in_whole, int64_t in_slice, size_t bytes) {
                     std::memcpy(to + in_whole, from + in_slice, bytes);
                   });
}

}  // namespace mtf
