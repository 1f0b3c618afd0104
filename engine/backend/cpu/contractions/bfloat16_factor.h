// The rounding of factors to bfloat16, as the instructions of AVX512-BF16 do it.
#pragma once

#include <bit>
#include <cstdint>

#include "engine/base/dispatch.h"

namespace mtf {

/// Returns the bits of x rounded to the nearest bfloat16, to even in the middle, as float32: the lower 16 are zero. Denormal
/// numbers become zero; NaN stays NaN.
MTF_INLINE uint32_t factor_bits(float x) {
  const uint32_t word = std::bit_cast<uint32_t>(x), size = word & 0x7fffffffu;
  const uint32_t nearest = word + 0x7fffu + ((word >> 16) & 1u);
  const uint32_t rounded = size > 0x7f800000u ? word | 0x400000u : nearest;
  return (size < 0x800000u ? word & 0x80000000u : rounded) & 0xffff0000u;
}

}  // namespace mtf
