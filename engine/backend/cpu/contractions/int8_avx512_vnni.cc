// Products of 8-bit codes by the sums of four products of AVX-512 VNNI, with tiles of up to 12 x 32.
#include "engine/backend/cpu/contractions/int8_kernels.h"

#if MTF_HAS_INSTRUCTION_SETS

#include <immintrin.h>

#include <array>
#include <cstring>
#include <utility>

#include "engine/base/dispatch.h"

#pragma GCC target("arch=x86-64-v4,avx512vnni")

#include "engine/backend/cpu/contractions/int8_tiles.h"

namespace mtf {
namespace {

struct Avx512Vnni {
  static constexpr int kLanes = 16;
  using Weights = __m512i;
  using Factors = __m512i;
  MTF_INLINE Weights weights(const uint8_t* b) { return _mm512_loadu_si512(b); }
  MTF_INLINE Factors factors(const int8_t* a) { return _mm512_set1_epi32(four_codes(a)); }
  MTF_INLINE Int32s<16> add(const Int32s<16>& sums, const Weights& weights, const Factors& factors) {
    return (Int32s<16>)_mm512_dpbusd_epi32((__m512i)sums, weights, factors);
  }
};

}  // namespace

const Int8Kernels* avx512_vnni_int8_kernels() {
  static constexpr Int8Kernels kKernels = make_int8_kernels<Avx512Vnni, 12, 24>("AVX-512 VNNI");
  return &kKernels;
}

}  // namespace mtf

#else

namespace mtf {

const Int8Kernels* avx512_vnni_int8_kernels() { return nullptr; }

}  // namespace mtf

#endif
