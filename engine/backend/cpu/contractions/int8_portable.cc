// Products of 8-bit codes by SSE2, which every x86-64 has, with tiles of up to 2 x 16. Bytes are widened to 16 bits: those of
// even and of odd depths apart.
#include <emmintrin.h>

#include "engine/backend/cpu/contractions/int8_tiles.h"

namespace mtf {
namespace {

struct Sse2 {
  static constexpr int kLanes = 4;
  struct Weights {
    __m128i even, odd;
  };
  using Factors = Weights;
  MTF_INLINE Weights weights(const uint8_t* b) {
    const auto bytes = loaded<__m128i>(b);
    return {_mm_and_si128(bytes, _mm_set1_epi16(0xff)), _mm_srli_epi16(bytes, 8)};
  }
  MTF_INLINE Factors factors(const int8_t* a) {
    const __m128i bytes = _mm_set1_epi32(four_codes(a));
    return {_mm_srai_epi16(_mm_slli_epi16(bytes, 8), 8), _mm_srai_epi16(bytes, 8)};
  }
  MTF_INLINE Int32s<4> add(const Int32s<4>& sums, const Weights& weights, const Factors& factors) {
    return sums + (Int32s<4>)_mm_madd_epi16(weights.even, factors.even) +
           (Int32s<4>)_mm_madd_epi16(weights.odd, factors.odd);
  }
};

}  // namespace

const Int8Kernels* portable_int8_kernels() {
  static constexpr Int8Kernels kKernels = make_int8_kernels<Sse2, 2, 8>("portable");
  return &kKernels;
}

}  // namespace mtf
