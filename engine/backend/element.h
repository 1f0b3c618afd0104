// Conversions for kernels written once for all element types: bfloat16 is widened to float32 for computation
// and rounded once on store; other types are computed with as they are.
#pragma once

#include <type_traits>

#include "engine/core/dtype.h"

namespace mtf {

template <class T>
using Computed = std::conditional_t<std::is_same_v<T, BFloat16>, float, T>;

template <class T>
[[gnu::always_inline]] constexpr Computed<T> widen(T value) {
  return static_cast<Computed<T>>(value);
}

/// Converts a value of any arithmetic type to T.
template <class T, class Value>
[[gnu::always_inline]] constexpr T narrow(Value value) {
  if constexpr (std::is_same_v<T, BFloat16>) {
#if defined(__CUDA_ARCH__)
    BFloat16 rounded;  // one instruction, or half of one, with the same rounding; every NaN becomes 0x7fff
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(rounded.bits) : "f"(static_cast<float>(value)));
    return rounded;
#else
    return BFloat16(static_cast<float>(value));
#endif
  } else {
    return static_cast<T>(value);
  }
}

}  // namespace mtf
