// Products of 8-bit codes by the sums of four products of AVX-VNNI, with tiles of up to 6 x 16.
#include "engine/backend/cpu/contractions/int8_kernels.h"

#if MTF_HAS_INSTRUCTION_SETS

#include <immintrin.h>

#include <array>
#include <cstring>
#include <utility>

#include "engine/base/dispatch.h"

#pragma GCC target("arch=x86-64-v3,avxvnni")

#include "engine/backend/cpu/contractions/int8_tiles.h"

namespace mtf {
namespace {

struct AvxVnni {
  static constexpr int kLanes = 8;
  using Weights = __m256i;
  using Factors = __m256i;
  MTF_INLINE Weights weights(const uint8_t* b) { return loaded<__m256i>(b); }
  MTF_INLINE Factors factors(const int8_t* a) { return _mm256_set1_epi32(four_codes(a)); }
  MTF_INLINE Int32s<8> add(const Int32s<8>& sums, const Weights& weights, const Factors& factors) {
    return (Int32s<8>)_mm256_dpbusd_avx_epi32((__m256i)sums, weights, factors);
  }
};

}  // namespace

const Int8Kernels* avx_vnni_int8_kernels() {
  static constexpr Int8Kernels kKernels = make_int8_kernels<AvxVnni, 6, 12>("AVX-VNNI");
  return &kKernels;
}

}  // namespace mtf

#else

namespace mtf {

const Int8Kernels* avx_vnni_int8_kernels() { return nullptr; }

}  // namespace mtf

#endif
