// Matrix multiplication of dense matrices in one thread, for the einsum kernel.
//
//   C [rows x columns] = A [rows x depth] * B [depth x columns]
//
// In float32 and bfloat16 the bits of an entry depend only on the instruction set, the row of A and the
// column of B, and not on the extents of the matrices, the place of the entry in them, strides, or alignment.
// Cutting rows and columns (layouts, tasks) therefore does not change results. An entry is the sum over
// consecutive blocks of the depth, of depth_block() elements each. Each block is a sequence of fused
// multiply-adds (multiplications and additions where the machine has no such instruction).
//
// With `in_bfloat16` the factors are rounded to bfloat16, and a block adds them in pairs of depths, the odd one first;
// InstructionSet::kAmx has an order of its own (PairKernels). Machines without instructions for pairs compute the same bits (the
// portable kernels only where no product leaves the range of float32).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/backend/cpu/contractions/gemm_kernels.h"
#include "engine/backend/element.h"
#include "engine/ops/einsum.h"

namespace mtf {

/// One of the summed axes, which together are the depth. The last one varies fastest.
struct SummedAxis {
  int64_t size = 1, a_stride = 0, b_stride = 0;
  /// If set, entry k of the axis stands at places[k] strides, which increases with k. Only for a single axis.
  const int64_t* places = nullptr;

  int64_t place(int64_t k) const { return places ? places[k] : k; }
};

/// The product of the sizes of the axes.
inline int64_t depth_of(std::span<const SummedAxis> summed) {
  int64_t depth = 1;
  for (const SummedAxis& axis : summed) depth *= axis.size;
  return depth;
}

/// The offset of entry k of the depth; `stride` is that of A or of B.
inline int64_t depth_offset(std::span<const SummedAxis> summed, int64_t k, int64_t SummedAxis::*stride) {
  int64_t offset = 0;
  for (size_t i = summed.size(); i-- > 0; k /= summed[i].size)
    offset += k % summed[i].size * (summed[i].*stride);
  return offset;
}

/// The operands of a product. The columns of C are contiguous; other strides are arbitrary.
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
  const int64_t* a_rows = nullptr;  ///< where each row of A begins, in place of a_row_stride
  const int64_t* c_rows = nullptr;  ///< where each row of C begins, in place of c_row_stride
  int64_t b_strip_stride = 0;       ///< if set, from kStripColumns neighbouring columns of B to the next ones
  bool adds = false;                ///< C += A * B
  bool in_bfloat16 = false;         ///< rounds the factors to bfloat16; not for float64, nor for B in strips

  const T* b_at(int64_t column) const {
    if (b_strip_stride == 0) return b + column * b_column_stride;
    return b + column / kStripColumns * b_strip_stride + column % kStripColumns;
  }
};

/// `scratch` must have product_scratch() elements.
void multiply(const Product<float>& product, float* scratch);
void multiply(const Product<BFloat16>& product, float* scratch);
/// Uses plain vectorised loops; `scratch` is not used.
void multiply(const Product<double>& product, double* scratch);

/// The same product with the kernels of one instruction set.
void multiply(const Product<float>& product, float* scratch, const GemmKernels& kernels);
void multiply(const Product<BFloat16>& product, float* scratch, const GemmKernels& kernels);

/// sums[j] += sum over k of a[k][j] * b[k][j], with the same multiply-adds as a product within one block of
/// the depth; in bfloat16 for float32 and bfloat16 if `in_bfloat16` is set.
void add_products(const Products<float>& products, float* sums);
void add_products(const Products<BFloat16>& products, float* sums);
void add_products(const Products<double>& products, double* sums);
void add_products(const Products<float>& products, float* sums, const GemmKernels& kernels);
void add_products(const Products<BFloat16>& products, float* sums, const GemmKernels& kernels);

/// The scratch elements for products of at most these extents, with any instruction set.
int64_t product_scratch(int64_t rows, int64_t columns, int64_t depth);

/// The length of a block of the depth, at most kMaximalBlockDepth; it depends only on the whole depth.
int64_t depth_block(int64_t depth);
/// A strip of B of this depth (48 KiB for 32 columns) streams from L2 past a panel of A that stays in L1.
inline constexpr int64_t kMaximalBlockDepth = 384;

}  // namespace mtf
