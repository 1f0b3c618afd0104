#include "engine/core/convert_elements.h"

#include <cstring>

#include "engine/base/check.h"

namespace mtf {
namespace {

/// Converts element by element through memcpy, because bytes of files need not be aligned.
template <class From, class To>
void convert(const std::byte* from, std::byte* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, from + i * static_cast<int64_t>(sizeof(From)), sizeof(From));
    const To result(value);
    std::memcpy(to + i * static_cast<int64_t>(sizeof(To)), &result, sizeof(To));
  }
}

bool is_narrow_or_single(DType dtype) { return dtype == DType::kFloat32 || dtype == DType::kBFloat16; }

}  // namespace

bool convertible(DType from, DType to) {
  return from == to || (is_narrow_or_single(from) && is_narrow_or_single(to));
}

void convert_elements(const std::byte* from, DType from_type, std::byte* to, DType to_type, int64_t count) {
  MTF_CHECK(convertible(from_type, to_type), "{} cannot become {}", name_of(from_type), name_of(to_type));
  if (from_type == to_type) {
    std::memcpy(to, from, static_cast<size_t>(count) * size_of(to_type));
  } else if (from_type == DType::kFloat32) {
    convert<float, BFloat16>(from, to, count);
  } else {
    convert<BFloat16, float>(from, to, count);
  }
}

}  // namespace mtf
