// Products of 8-bit codes by AVX2, with tiles of up to 4 x 16. Its products of bytes saturate, so bytes are widened.
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
  template <class Int16s>
  MTF_INLINE Int32s<8> multiply_add(const Int16s& a, const Int16s& b) {
    return (Int32s<8>)_mm256_madd_epi16((__m256i)a, (__m256i)b);
  }
};

}  // namespace

const Int8Kernels* avx2_int8_kernels() {
  static constexpr Int8Kernels kKernels = make_int8_kernels<WidenedBytes<Avx2>, 4, 8>("AVX2");
  return &kKernels;
}

}  // namespace mtf

#else

namespace mtf {

const Int8Kernels* avx2_int8_kernels() { return nullptr; }

}  // namespace mtf

#endif
