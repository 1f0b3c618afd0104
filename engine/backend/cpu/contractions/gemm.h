// Matrix multiplication on dense matrices, one thread, for the einsum kernel.
//
//   C [rows x columns] = A [rows x depth] * B [depth x columns]
//
// The bits of an entry in float32 and bfloat16 depend on the instruction set, the row of A and the column of
// B alone: not on the extents of the matrices, the place of the entry in them, strides, or alignment. So
// whatever cuts rows and columns (layouts, tasks) leaves results as they are. The entry is the sum over
// blocks of the depth, one after the other, of depth_block() entries each, and each block is a chain of fused
// multiply-adds (multiplications and additions where the machine has no such instruction).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/backend/cpu/contractions/gemm_kernels.h"
#include "engine/backend/element.h"

namespace mtf {

/// One of the axes that are summed over; the last one varies fastest. Together they are the depth.
struct SummedAxis {
  int64_t size = 1, a_stride = 0, b_stride = 0;
};

/// Strides are any; the columns of C are contiguous.
template <class T>
struct Product {
  int64_t rows = 0, columns = 0;
  std::span<const SummedAxis> summed;
  const T* a = nullptr;
  int64_t a_row_stride = 0;
  const T* b = nullptr;
  int64_t b_column_stride = 0;
  Computed<T>* c = nullptr;
  int64_t c_row_stride = 0;
};

/// `scratch`: product_scratch() elements.
void multiply(const Product<float>& product, float* scratch);
void multiply(const Product<BFloat16>& product, float* scratch);
/// Plain vectorised loops, without scratch.
void multiply(const Product<double>& product, double* scratch);

/// The same with the kernels of one instruction set.
void multiply(const Product<float>& product, float* scratch, const GemmKernels& kernels);
void multiply(const Product<BFloat16>& product, float* scratch, const GemmKernels& kernels);

/// sums[j] += sum over k of a[k][j] * b[k][j]: within a block of the depth, the multiply-adds of a product.
void add_products(const Products<float>& products, float* sums);
void add_products(const Products<BFloat16>& products, float* sums);
void add_products(const Products<double>& products, double* sums);

/// Elements of scratch for products of at most these extents, for all instruction sets.
int64_t product_scratch(int64_t rows, int64_t columns, int64_t depth);

/// Length of a block of the depth: a function of the whole depth.
int64_t depth_block(int64_t depth);

}  // namespace mtf
