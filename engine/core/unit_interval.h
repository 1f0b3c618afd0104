// Bytes of pixels as numbers from 0 to 1.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mtf {

/// to[i] = from[i * stride] / 255, the nearest number of float32.
void to_unit_interval(const std::byte* from, int64_t stride, int64_t count, float* to);

}  // namespace mtf
