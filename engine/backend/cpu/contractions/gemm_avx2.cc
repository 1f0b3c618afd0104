// Kernels of the matrix product for AVX2, with tiles of up to 6 x 16.
#include "engine/backend/cpu/contractions/gemm_kernels.h"

#if MTF_HAS_INSTRUCTION_SETS

#include <bit>
#include <cstring>
#include <utility>

#include "engine/backend/cpu/contractions/bfloat16_factor.h"
#include "engine/backend/element.h"
#include "engine/base/dispatch.h"

#pragma GCC target("arch=x86-64-v3")

#include "engine/backend/cpu/contractions/gemm_thin.h"

namespace mtf {

const GemmKernels* avx2_gemm_kernels() {
  static constexpr GemmKernels kKernels = make_all_kernels<8, 6>();
  return &kKernels;
}

}  // namespace mtf

#else

namespace mtf {

const GemmKernels* avx2_gemm_kernels() { return nullptr; }

}  // namespace mtf

#endif
