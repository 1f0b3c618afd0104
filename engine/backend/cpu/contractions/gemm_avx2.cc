// Kernels of the matrix product for AVX2, with tiles of up to 6 x 16.
#include "engine/backend/cpu/contractions/gemm_kernels.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)

#include <cstring>
#include <utility>

#include "engine/backend/element.h"

#pragma GCC target("arch=x86-64-v3")

#include "engine/backend/cpu/contractions/gemm_tiles.h"

namespace mtf {

const GemmKernels* avx2_gemm_kernels() {
  static constexpr GemmKernels kKernels = make_kernels<8, 6>("avx2");
  return &kKernels;
}

}  // namespace mtf

#else

namespace mtf {

const GemmKernels* avx2_gemm_kernels() { return nullptr; }

}  // namespace mtf

#endif
