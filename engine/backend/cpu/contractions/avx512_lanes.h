// Lanes of a vector of AVX-512. As gemm_tiles.h, it is included after the pragma for the instruction set.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "engine/base/dispatch.h"

namespace mtf {
namespace {

constexpr int kLanes = 16;

/// The first `count` lanes: all of them if there are fewer, none if `count` is negative.
MTF_INLINE __mmask16 first_lanes(int64_t count) {
  if (count <= 0) return 0;
  return static_cast<__mmask16>(count >= kLanes ? 0xffff : (1 << count) - 1);
}

}  // namespace
}  // namespace mtf
