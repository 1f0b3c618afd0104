// Codes of 8 bits for optimizer slots (precision.slots: int8; after the blockwise codes of Dettmers et al. 2022, 8-bit
// Optimizers via Block-wise Quantization). A block of values shares a power of two, the smallest 2^e with which the
// largest magnitude of the block is at most 31/16 2^e. A code is a small floating-point number below 2 that is multiplied
// with it, with a mantissa of 4 bits:
//
//   int8    sign, exponent of 3 bits: values of both signs; 2^-10 to 31/16, and 0
//   uint8   exponent of 4 bits: values that are not negative; 2^-18 to 31/16, and 0
//
// Neighbours differ by 1/16 to 1/32 of their size, and evenly below 2^-6 and 2^-14. As blocks differ by powers of two,
// codes of one block are codes of another, too, where its range has them: a value that does not change is not rounded
// again when the largest one of its block changes.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "engine/core/dtype.h"

namespace mtf {

inline bool is_slot_code(DType dtype) { return dtype == DType::kInt8 || dtype == DType::kUInt8; }

/// The powers of two between a block's values and its codes.
struct SlotScale {
  float to_code = 1, to_value = 1;
};

/// The scale of a block whose largest magnitude is `largest`. Blocks below 2^-100 and above 2^100 have those scales.
[[gnu::always_inline]] constexpr SlotScale slot_scale(float largest) {
  constexpr uint32_t kAbove = 0x7ffff;  // carries into the exponent what exceeds 31/16
  const uint32_t rounded = ((std::bit_cast<uint32_t>(largest) & 0x7fffffffu) + kAbove) >> 23;
  const uint32_t exponent = rounded < 27 ? 27 : rounded > 227 ? 227 : rounded;
  return {std::bit_cast<float>((254 - exponent) << 23), std::bit_cast<float>(exponent << 23)};
}

template <class Code>
struct SlotCodeFormat {
  static_assert(std::is_same_v<Code, int8_t> || std::is_same_v<Code, uint8_t>);
  static constexpr bool kIsSigned = std::is_same_v<Code, int8_t>;
  static constexpr uint32_t kExponents = kIsSigned ? 7 : 15;
  static constexpr uint32_t kLargest = kExponents << 4 | 15;  ///< the magnitude of the largest code
  static constexpr uint32_t kLeastBits = (128 - kExponents) << 23;
  static constexpr float kLeast = std::bit_cast<float>(kLeastBits);  ///< below it codes are evenly spaced
};

/// The value for the lower 19 bits of `bits` with which encode_slot() rounds to nearest.
inline constexpr uint32_t kRoundToNearest = 1u << 18;

/// The code of `value` in a block of this scale. The lower 19 of the random `bits` choose one of the two neighbours, with
/// probabilities that make the mean of the result the value. Positive values of uint8 become no zero but the least
/// code: second moments that are too small for their block are taken as larger, never as none.
template <class Code>
[[gnu::always_inline]] constexpr Code encode_slot(float value, const SlotScale& scale, uint32_t bits) {
  using Format = SlotCodeFormat<Code>;
  const uint32_t word = std::bit_cast<uint32_t>(value);
  const float magnitude = std::bit_cast<float>(word & 0x7fffffffu) * scale.to_code;
  const bool is_small = magnitude < Format::kLeast;
  const uint32_t normal = std::bit_cast<uint32_t>(is_small ? magnitude + Format::kLeast : magnitude) -
                          Format::kLeastBits + (is_small ? 0u : 1u << 23);
  const uint32_t rounded = (normal + (bits & 0x7ffffu)) >> 19;
  const uint32_t code = rounded > Format::kLargest ? Format::kLargest : rounded;
  if constexpr (Format::kIsSigned) {
    return static_cast<int8_t>(static_cast<uint8_t>(code | (word >> 24 & 0x80u)));
  } else {
    return static_cast<uint8_t>(value > 0 && code == 0 ? 1u : code);
  }
}

template <class Code>
[[gnu::always_inline]] constexpr float decode_slot(Code code, const SlotScale& scale) {
  using Format = SlotCodeFormat<Code>;
  const uint32_t word = static_cast<uint8_t>(code), magnitude = Format::kIsSigned ? word & 0x7fu : word;
  const bool is_small = magnitude < 16;
  const float normal =
      std::bit_cast<float>(Format::kLeastBits + (magnitude << 19) - (is_small ? 0u : 1u << 23));
  const float value = (is_small ? normal - Format::kLeast : normal) * scale.to_value;
  if constexpr (Format::kIsSigned) {
    return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | (word & 0x80u) << 24);
  } else {
    return value;
  }
}

}  // namespace mtf
