// The innermost loops of the float32 matrix product, once for each instruction set: tiles of the result that
// stay in registers, and the copying of operands into panels. gemm.cc chooses the set and drives the loops.
#pragma once

#include <cstdint>
#include <span>

#include "engine/core/dtype.h"

namespace mtf {

/// c [rows x columns] = (add ? c : 0) + a [rows x depth] * b [depth x columns]. An entry of the product is
/// the sum of fused multiply-adds in order of depth, whatever the kernel and the place of the entry in the
/// tile.
struct Tile {
  int64_t depth = 0;
  const float* a = nullptr;
  int64_t a_row_stride = 1, a_depth_stride = 0;
  const float* b = nullptr;  ///< columns contiguous; whole vectors are read
  int64_t b_depth_stride = 0;
  int64_t b_prefetch = 0;     ///< what lies so many entries further is fetched
  float* packed_b = nullptr;  ///< where set, the columns of b are copied there, row by row
  float* c = nullptr;
  int64_t c_row_stride = 0;
  int64_t columns = 0;  ///< at most those of the kernel
  bool add = false;
};

/// A strip of an operand, `width` rows of A or columns of B, of which depth entries are taken.
template <class T>
struct Strip {
  const T* data = nullptr;
  int64_t width = 0, stride = 0;
  int64_t depth = 0, depth_stride = 0;
};

/// Rows of a and b that are multiplied entry by entry.
template <class T>
struct Products {
  const T *a = nullptr, *b = nullptr;
  int64_t a_stride = 0, b_stride = 0;
  int64_t depth = 0, size = 0;
};

inline constexpr int kMaximalTileRows = 16;

struct GemmKernels {
  using Multiply = void (*)(const Tile&);

  const char* name;  ///< of the instruction set
  int tile_rows;
  int vector_width;  ///< a tile has one or two vectors of columns
  /// By vectors - 1 and rows - 1. `packed`: a is [depth][rows]; `strided`: any strides.
  Multiply packed[2][kMaximalTileRows], strided[2][kMaximalTileRows];
  /// to[k * to_stride + i] = strip entry i at depth k. Entries up to the next whole vector are written too.
  void (*pack)(const Strip<float>&, float* to, int64_t to_stride);
  void (*pack_bf16)(const Strip<BFloat16>&, float* to, int64_t to_stride);
  /// One entry after the other with the same multiply-adds as a tile.
  void (*add_products)(const Products<float>&, float* sums);
  void (*add_products_bf16)(const Products<BFloat16>&, float* sums);
};

/// The instruction sets of this program that the machine has, the best one first.
std::span<const GemmKernels* const> available_gemm_kernels();

/// Null where the compiler does not make them.
const GemmKernels* avx512_gemm_kernels();
const GemmKernels* avx2_gemm_kernels();
const GemmKernels* portable_gemm_kernels();

}  // namespace mtf
