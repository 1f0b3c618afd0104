#include "engine/runtime/slicing.h"

#include "engine/core/rectangle.h"

namespace mtf {

void copy_to_slice(const Shape& whole, const Shape& slice, const std::vector<int64_t>& begin,
                   size_t element_bytes, const std::byte* from, std::byte* to) {
  copy_rectangle(slice, element_bytes, from, {whole, begin}, to, {slice});
}

void copy_from_slice(const Shape& whole, const Shape& slice, const std::vector<int64_t>& begin,
                     size_t element_bytes, const std::byte* from, std::byte* to) {
  copy_rectangle(slice, element_bytes, from, {slice}, to, {whole, begin});
}

}  // namespace mtf
