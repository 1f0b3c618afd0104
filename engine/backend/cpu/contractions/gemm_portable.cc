// Portable kernels of the matrix product, with vectors of four entries and tiles of up to 4 x 8.
#include "engine/backend/cpu/contractions/gemm_thin.h"

namespace mtf {

const GemmKernels* portable_gemm_kernels() {
  static constexpr GemmKernels kKernels = make_all_kernels<4, 4>();
  return &kKernels;
}

}  // namespace mtf
