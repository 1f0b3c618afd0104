// Copies between a whole tensor on the host and the slice of one position.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/core/shape.h"

namespace mtf {

/// Both row-major; `begin`: global index of the slice's first element along each axis. Allocates nothing.
void copy_to_slice(const Shape& whole, const Shape& slice, const std::vector<int64_t>& begin,
                   size_t element_bytes, const std::byte* from, std::byte* to);
void copy_from_slice(const Shape& whole, const Shape& slice, const std::vector<int64_t>& begin,
                     size_t element_bytes, const std::byte* from, std::byte* to);

}  // namespace mtf
