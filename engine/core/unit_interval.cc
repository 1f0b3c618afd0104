#include "engine/core/unit_interval.h"

#include "engine/base/dispatch.h"

namespace mtf {
namespace {

MTF_INLINE void scale(const std::byte* from, int64_t stride, int64_t count, float* __restrict to) {
  if (stride == 1) {
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(static_cast<uint8_t>(from[i])) / 255.0f;
  } else {
    for (int64_t i = 0; i < count; ++i)
      to[i] = static_cast<float>(static_cast<uint8_t>(from[i * stride])) / 255.0f;
  }
}

}  // namespace

void to_unit_interval(const std::byte* from, int64_t stride, int64_t count, float* to) {
  dispatched<scale>(from, stride, count, to);
}

}  // namespace mtf
