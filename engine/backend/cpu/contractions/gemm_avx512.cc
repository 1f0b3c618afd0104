// Kernels of the matrix product for AVX-512, with tiles of up to 14 x 32.
#include "engine/backend/cpu/contractions/gemm_kernels.h"

#if MTF_HAS_INSTRUCTION_SETS

#include <bit>
#include <cstring>
#include <utility>

#include "engine/backend/cpu/contractions/bfloat16_factor.h"
#include "engine/backend/element.h"
#include "engine/base/dispatch.h"

#pragma GCC target("arch=x86-64-v4")

#include "engine/backend/cpu/contractions/gemm_thin.h"

namespace mtf {

const GemmKernels* avx512_gemm_kernels() {
  static constexpr GemmKernels kKernels = make_all_kernels<16, 14>();
  return &kKernels;
}

}  // namespace mtf

#else

namespace mtf {

const GemmKernels* avx512_gemm_kernels() { return nullptr; }

}  // namespace mtf

#endif
