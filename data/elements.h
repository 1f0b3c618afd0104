// Numbers as files store them, in more types and byte orders than tensors have, and their conversion.
//
//   const StoredElements elements{StoredType::kInt16, ByteOrder::kBig};
//   convert_elements(elements, bytes, 2, 100, DType::kFloat32, output);   // 100 numbers, 2 bytes apart
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/core/dtype.h"

namespace mtf {

enum class StoredType : uint8_t {
  kBool,
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kUint64,
  kInt64,
  kFloat16,
  kFloat32,
  kFloat64
};

/// Returns the number of bytes of one number.
int64_t size_of(StoredType type);
/// Returns the name in messages: "uint8", "float32", ...
std::string_view name_of(StoredType type);
bool is_integer(StoredType type);

struct StoredElements {
  StoredType type = StoredType::kUint8;
  bool big_endian = false;
  bool scaled = false;  ///< uint8 as float32: 0..255 becomes 0..1
};

/// Writes `count` numbers, whose first bytes lie `stride` bytes apart, to `output` one after the other, as float32;
/// whole numbers also as int32, and scaled bytes as they are, as uint8. Returns false when a number is not one of int32; the
/// nearest one stands for it.
bool convert_elements(const StoredElements& elements, const std::byte* from, int64_t stride, int64_t count,
                      DType dtype, std::byte* output);

}  // namespace mtf
