#include "engine/backend/cpu/contractions/gemm_kernels.h"

#include "engine/backend/cpu/contractions/denormals_are_zero.h"
#include "engine/backend/cpu/contractions/gemm.h"

namespace mtf {

const GemmKernels& gemm_kernels(InstructionSet set) {
  switch (set) {
    case InstructionSet::kAmx:
      return *amx_gemm_kernels();
    case InstructionSet::kAvx512: {
      static const GemmKernels with_pairs = [] {
        GemmKernels kernels = *avx512_gemm_kernels();
        kernels.pairs = avx512_pair_kernels();
        return kernels;
      }();
      return with_pairs;
    }
    case InstructionSet::kAvx2:
      return *avx2_gemm_kernels();
    case InstructionSet::kPortable:
      break;
  }
  return *portable_gemm_kernels();
}

void add_products(const Products<float>& products, float* sums) {
  add_products(products, sums, gemm_kernels(instruction_set()));
}
void add_products(const Products<BFloat16>& products, float* sums) {
  add_products(products, sums, gemm_kernels(instruction_set()));
}
void add_products(const Products<float>& products, float* sums, const GemmKernels& kernels) {
  if (!products.in_bfloat16) return kernels.add_products(products, sums);
  const DenormalsAreZero denormals_are_zero;
  kernels.add_pairs(products, sums);
}
void add_products(const Products<BFloat16>& products, float* sums, const GemmKernels& kernels) {
  if (!products.in_bfloat16) return kernels.add_products_bf16(products, sums);
  const DenormalsAreZero denormals_are_zero;
  kernels.add_pairs_bf16(products, sums);
}

}  // namespace mtf
