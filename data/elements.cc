#include "data/elements.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "engine/base/check.h"
#include "engine/core/unit_interval.h"

namespace mtf {
namespace {

/// IEEE half precision: only a type of files.
struct Float16 {
  uint16_t bits;
  explicit operator float() const {
    const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    const float magnitude = exponent == 0    ? std::ldexp(static_cast<float>(mantissa), -24)
                            : exponent == 31 ? (mantissa == 0 ? std::numeric_limits<float>::infinity()
                                                              : std::numeric_limits<float>::quiet_NaN())
                                             : std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
    return bits >> 15 ? -magnitude : magnitude;
  }
};

template <class T>
T load(const std::byte* from, bool swapped) {
  std::array<std::byte, sizeof(T)> bytes;
  std::memcpy(bytes.data(), from, sizeof(T));
  if (swapped) std::ranges::reverse(bytes);
  return std::bit_cast<T>(bytes);
}

template <class From>
bool convert(const std::byte* from, int64_t stride, int64_t count, bool swapped, float* output) {
  for (int64_t i = 0; i < count; ++i) output[i] = static_cast<float>(load<From>(from + i * stride, swapped));
  return true;
}

template <class From>
bool convert(const std::byte* from, int64_t stride, int64_t count, bool swapped, int32_t* output) {
  bool fits = true;
  for (int64_t i = 0; i < count; ++i) {
    const From value = load<From>(from + i * stride, swapped);
    fits = fits && std::in_range<int32_t>(value);
    output[i] = std::in_range<int32_t>(value) ? static_cast<int32_t>(value)
                : std::cmp_less(value, 0)     ? std::numeric_limits<int32_t>::min()
                                              : std::numeric_limits<int32_t>::max();
  }
  return fits;
}

void copy_bytes(const std::byte* from, int64_t stride, int64_t count, std::byte* output) {
  if (stride == 1) {
    std::memcpy(output, from, static_cast<size_t>(count));
  } else {
    for (int64_t i = 0; i < count; ++i) output[i] = from[i * stride];
  }
}

template <class To>
bool convert_integers(StoredType type, const std::byte* from, int64_t stride, int64_t count, bool swapped,
                      To* output) {
  switch (type) {
    case StoredType::kBool:
      for (int64_t i = 0; i < count; ++i) output[i] = static_cast<To>(from[i * stride] != std::byte{0});
      return true;
    case StoredType::kUint8:
      return convert<uint8_t>(from, stride, count, swapped, output);
    case StoredType::kInt8:
      return convert<int8_t>(from, stride, count, swapped, output);
    case StoredType::kUint16:
      return convert<uint16_t>(from, stride, count, swapped, output);
    case StoredType::kInt16:
      return convert<int16_t>(from, stride, count, swapped, output);
    case StoredType::kUint32:
      return convert<uint32_t>(from, stride, count, swapped, output);
    case StoredType::kInt32:
      return convert<int32_t>(from, stride, count, swapped, output);
    case StoredType::kUint64:
      return convert<uint64_t>(from, stride, count, swapped, output);
    default:
      return convert<int64_t>(from, stride, count, swapped, output);
  }
}

bool convert_floats(StoredType type, const std::byte* from, int64_t stride, int64_t count, bool swapped,
                    float* output) {
  switch (type) {
    case StoredType::kFloat16:
      return convert<Float16>(from, stride, count, swapped, output);
    case StoredType::kFloat32:
      return convert<float>(from, stride, count, swapped, output);
    default:
      return convert<double>(from, stride, count, swapped, output);
  }
}

struct TypeFacts {
  std::string_view name;
  int64_t bytes;
};
constexpr std::array<TypeFacts, 12> kTypes = {{{"bool", 1},
                                               {"uint8", 1},
                                               {"int8", 1},
                                               {"uint16", 2},
                                               {"int16", 2},
                                               {"uint32", 4},
                                               {"int32", 4},
                                               {"uint64", 8},
                                               {"int64", 8},
                                               {"float16", 2},
                                               {"float32", 4},
                                               {"float64", 8}}};

}  // namespace

int64_t size_of(StoredType type) { return kTypes[static_cast<size_t>(type)].bytes; }

std::string_view name_of(StoredType type) { return kTypes[static_cast<size_t>(type)].name; }

bool is_integer(StoredType type) { return type < StoredType::kFloat16; }

bool convert_elements(const StoredElements& elements, const std::byte* from, int64_t stride, int64_t count,
                      DType dtype, std::byte* output) {
  auto* const floats = reinterpret_cast<float*>(output);
  if (elements.scaled) {
    MTF_CHECK(elements.type == StoredType::kUint8 && (dtype == DType::kFloat32 || dtype == DType::kUInt8),
              "scaled {} as {}", name_of(elements.type), name_of(dtype));
    if (dtype == DType::kUInt8) {
      copy_bytes(from, stride, count, output);
    } else {
      to_unit_interval(from, stride, count, floats);
    }
    return true;
  }
  const bool swapped = elements.big_endian != (std::endian::native == std::endian::big);
  if (!is_integer(elements.type)) {
    MTF_CHECK(dtype == DType::kFloat32, "{} as {}", name_of(elements.type), name_of(dtype));
    return convert_floats(elements.type, from, stride, count, swapped, floats);
  }
  if (dtype == DType::kFloat32) return convert_integers(elements.type, from, stride, count, swapped, floats);
  MTF_CHECK(dtype == DType::kInt32, "{} as {}", name_of(elements.type), name_of(dtype));
  return convert_integers(elements.type, from, stride, count, swapped, reinterpret_cast<int32_t*>(output));
}

}  // namespace mtf
