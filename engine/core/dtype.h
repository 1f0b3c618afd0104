// Element types of tensors. bfloat16 is a storage type: kernels widen it to float32 and round once when they
// store (products may multiply it as it is: matmul_precision.h). int8 and uint8 hold codes: of optimizer slots
// (engine/core/slot_code.h), and of the factors of products in inference (engine/ops/int8_product.h).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace mtf {

enum class DType : uint8_t { kFloat32, kBFloat16, kFloat64, kInt32, kInt64, kBool, kInt8, kUInt8 };

/// Returns the number of bytes of one element.
size_t size_of(DType dtype);
/// Returns the name in the text of programs: "f32", "bf16", "f64", "i32", "i64", "bool", "i8" or "u8".
std::string_view short_name(DType dtype);
/// Returns the name in configurations: "float32", "bfloat16", ...
std::string_view name_of(DType dtype);
std::optional<DType> parse_dtype(std::string_view name);
inline bool is_floating(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat64;
}

/// Brain floating point. The conversion from float32 rounds to nearest even and keeps NaN.
struct BFloat16 {
  uint16_t bits = 0;

  constexpr BFloat16() = default;
  constexpr explicit BFloat16(float value) {
    const uint32_t word = std::bit_cast<uint32_t>(value);
    bits = (word & 0x7fffffffu) > 0x7f800000u
               ? static_cast<uint16_t>((word >> 16) | 0x40u)
               : static_cast<uint16_t>((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
  }
  constexpr explicit operator float() const {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
};

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kFloat32;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::kBFloat16;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kFloat64;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kInt32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::kInt64;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::kBool;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr DType value = DType::kInt8;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::kUInt8;
};

}  // namespace mtf
