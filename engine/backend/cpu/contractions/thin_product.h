// Products with few rows, by the kernels that read B in place (gemm_thin.h).
#pragma once

#include <cstdint>

#include "engine/backend/cpu/contractions/gemm.h"
#include "engine/backend/cpu/contractions/gemm_kernels.h"

namespace mtf {

/// Multiplies any number of rows, kMostThinRows at a time.
void multiply(const ThinProduct<float>& product, int64_t rows, const GemmKernels& kernels);
void multiply(const ThinProduct<BFloat16>& product, int64_t rows, const GemmKernels& kernels);

/// Multiplies as many columns as it can if the product has few rows, by whole vectors, and returns their number: 0 if there are
/// many rows, or B is not contiguous along one side. `scratch` must have thin_product_scratch() elements.
int64_t multiply_few_rows(const Product<float>& product, float* scratch, const GemmKernels& kernels);
int64_t multiply_few_rows(const Product<BFloat16>& product, float* scratch, const GemmKernels& kernels);

/// The scratch elements for products of at most these extents: a copy of A.
int64_t thin_product_scratch(int64_t rows, int64_t depth);

}  // namespace mtf
