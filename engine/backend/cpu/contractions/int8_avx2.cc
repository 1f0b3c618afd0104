// Products of 8-bit codes by AVX2, with tiles of up to 4 x 16. Its products of bytes saturate, so bytes are widened to 16
// bits: those of even and of odd depths apart.
#include "engine/backend/cpu/contractions/int8_kernels.h"

#if MTF_HAS_INSTRUCTION_SETS

#include <immintrin.h>

#include <array>
#include <cstring>
#include <utility>

#include "engine/base/dispatch.h"

#pragma GCC target("arch=x86-64-v3")

#include "engine/backend/cpu/contractions/int8_tiles.h"

namespace mtf {
namespace {

struct Avx2 {
  static constexpr int kLanes = 8;
  struct Weights {
    __m256i even, odd;
  };
  using Factors = Weights;
  MTF_INLINE Weights weights(const uint8_t* b) {
    const auto bytes = loaded<__m256i>(b);
    return {_mm256_and_si256(bytes, _mm256_set1_epi16(0xff)), _mm256_srli_epi16(bytes, 8)};
  }
  MTF_INLINE Factors factors(const int8_t* a) {
    const __m256i bytes = _mm256_set1_epi32(four_codes(a));
    return {_mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8), _mm256_srai_epi16(bytes, 8)};
  }
  MTF_INLINE Int32s<8> add(const Int32s<8>& sums, const Weights& weights, const Factors& factors) {
    return sums + (Int32s<8>)_mm256_madd_epi16(weights.even, factors.even) +
           (Int32s<8>)_mm256_madd_epi16(weights.odd, factors.odd);
  }
};

}  // namespace

const Int8Kernels* avx2_int8_kernels() {
  static constexpr Int8Kernels kKernels = make_int8_kernels<Avx2, 4, 8>("AVX2");
  return &kKernels;
}

}  // namespace mtf

#else

namespace mtf {

const Int8Kernels* avx2_int8_kernels() { return nullptr; }

}  // namespace mtf

#endif
