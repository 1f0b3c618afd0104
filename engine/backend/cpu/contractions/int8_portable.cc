// Products of 8-bit codes by SSE2, which every x86-64 has, with tiles of up to 2 x 16 of widened bytes.
#include <emmintrin.h>

#include "engine/backend/cpu/contractions/int8_tiles.h"

namespace mtf {
namespace {

struct Sse2 {
  static constexpr int kLanes = 4;
  template <class Int16s>
  MTF_INLINE Int32s<4> multiply_add(const Int16s& a, const Int16s& b) {
    return (Int32s<4>)_mm_madd_epi16((__m128i)a, (__m128i)b);
  }
};

}  // namespace

const Int8Kernels* portable_int8_kernels() {
  static constexpr Int8Kernels kKernels = make_int8_kernels<WidenedBytes<Sse2>, 2, 8>("portable");
  return &kKernels;
}

}  // namespace mtf
