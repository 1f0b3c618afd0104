// Stochastic rounding of float32 to bfloat16 (Gupta et al. 2015, Deep learning with limited numerical precision): up with
// the probability (x - below) / (above - below), where `below` and `above` are the neighbours of x, so that the mean of
// the result is x. A running mean that is stored so moves even where its changes are smaller than half the distance of
// two neighbours, which rounding to nearest would lose.
#pragma once

#include <bit>
#include <cstdint>

#include "engine/core/dtype.h"

namespace mtf {

/// `bits` are random; the lower 16 count. Numbers of bfloat16, infinities and NaN are kept. The error is below the
/// distance of two neighbours, which is at most 2^-7 of the number; its standard deviation is at most half of that.
/// Numbers above the largest of bfloat16 may become infinite.
[[gnu::always_inline]] constexpr BFloat16 round_stochastically(float value, uint32_t bits) {
  const uint32_t word = std::bit_cast<uint32_t>(value);
  const bool is_nan = (word & 0x7fffffffu) > 0x7f800000u;
  BFloat16 rounded;
  rounded.bits = static_cast<uint16_t>((is_nan ? word | 0x400000u : word + (bits & 0xffffu)) >> 16);
  return rounded;
}

}  // namespace mtf
