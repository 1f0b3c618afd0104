// The innermost loops of the float32 matrix product, one version for each instruction set: tiles of the
// result that stay in registers, and the packing of operands into panels. gemm.cc drives the loops
// with the version for instruction_set().
#pragma once

#include <cstdint>

#include "engine/base/instruction_set.h"
#include "engine/core/dtype.h"

namespace mtf {

/// c [rows x columns] = (add ? c : 0) + a [rows x depth] * b [depth x columns]. An entry of the product is
/// the sum of fused multiply-adds in order of depth, whatever the kernel and the place of the entry in the
/// tile.
struct Tile {
  int64_t depth = 0;
  const float* a = nullptr;
  int64_t a_row_stride = 1, a_depth_stride = 0;
  const float* b = nullptr;  ///< columns are contiguous; whole vectors are read
  int64_t b_depth_stride = 0;
  int64_t b_prefetch = 0;     ///< distance in elements at which b is prefetched
  float* packed_b = nullptr;  ///< if set, the columns of b are copied there, row by row
  float* c = nullptr;
  int64_t c_row_stride = 0;
  const int64_t* c_rows = nullptr;  ///< where each row of c begins, in place of c_row_stride
  int64_t columns = 0;              ///< at most as many as the kernel has
  bool add = false;

  float* row(int64_t i) const { return c + (c_rows ? c_rows[i] : i * c_row_stride); }
};

/// A strip of an operand: `width` rows of A or columns of B, with `depth` entries of each.
template <class T>
struct Strip {
  const T* data = nullptr;
  int64_t width = 0, stride = 0;
  int64_t depth = 0, depth_stride = 0;
  const int64_t* offsets = nullptr;  ///< where each row or column begins, in place of `stride`
  const int64_t* places = nullptr;   ///< depth k stands at places[k] depth strides, which increases with k

  /// The rows or columns from `first` on, at most `most` of them.
  Strip entries_from(int64_t first, int64_t most) const {
    Strip part = *this;
    part.width = width - first < most ? width - first : most;
    if (offsets) {
      part.offsets += first;
    } else {
      part.data += first * stride;
    }
    return part;
  }
  /// The depths from `first` on, at most `most` of them.
  Strip depths_from(int64_t first, int64_t most) const {
    Strip part = *this;
    part.depth = depth - first < most ? depth - first : most;
    if (places) {
      part.places += first;
    } else {
      part.data += first * depth_stride;
    }
    return part;
  }
  int64_t offset(int64_t i) const { return offsets ? offsets[i] : i * stride; }
  int64_t depth_offset(int64_t k) const { return (places ? places[k] : k) * depth_stride; }
};

/// Rows of a and b that are multiplied elementwise.
template <class T>
struct Products {
  const T *a = nullptr, *b = nullptr;
  int64_t a_stride = 0, b_stride = 0;
  int64_t depth = 0, size = 0;
  bool in_bfloat16 = false;
  const int64_t *a_places = nullptr,
                *b_places = nullptr;  ///< where each depth begins, in place of the strides

  const T* a_at(int64_t k) const { return a + (a_places ? a_places[k] : k * a_stride); }
  const T* b_at(int64_t k) const { return b + (b_places ? b_places[k] : k * b_stride); }
};

/// c [rows x columns] = (adds ? c : 0) + a [rows x depth] * b [depth x columns], with the sums over blocks of the depth of
/// gemm.h. There are whole vectors of columns; the depths of each row of a, and the columns of c, are contiguous.
template <class T>
struct ThinProduct {
  int64_t columns = 0, depth = 0, block = 0;
  const float* a = nullptr;
  int64_t a_row_stride = 0;
  const T* b = nullptr;
  int64_t b_column_stride = 0, b_depth_stride = 0;  ///< one of them is 1
  float* c = nullptr;
  int64_t c_row_stride = 0;
  bool adds = false;
  /// The sums of the first block begin with c: as if c were the sums at the depths before. Not with `adds`, and
  /// not for PairKernels.
  bool continues = false;

  ThinProduct rows_from(int64_t first) const {
    ThinProduct rest = *this;
    rest.a += first * a_row_stride;
    rest.c += first * c_row_stride;
    return rest;
  }
};

inline constexpr int kMaximalTileRows = 16;
/// The most rows of a thin product; with more of them packing B pays.
inline constexpr int kMostThinRows = 8;

/// Panels of neighbouring rows of A: the first `longer` ones have size + 1 rows, the others `size`.
struct Panels {
  int64_t count = 0, size = 0, longer = 0;

  int64_t rows() const { return begin(count); }
  int64_t rows(int64_t panel) const { return panel < longer ? size + 1 : size; }
  int64_t begin(int64_t panel) const { return panel * size + (panel < longer ? panel : longer); }
  /// Those from `first` on, at most `most` of them.
  Panels some(int64_t first, int64_t most) const {
    return {most < count - first ? most : count - first, size, longer > first ? longer - first : 0};
  }
};

struct PairKernels;

struct GemmKernels {
  using Multiply = void (*)(const Tile&);
  using MultiplyTwo = void (*)(const Tile& first, const Tile& second);

  int tile_rows;
  int vector_width;  ///< a tile has one or two vectors of columns
  /// Kernels by vectors - 1 and rows - 1. For `packed`, a is [depth][rows]; for `strided`, a has any strides.
  Multiply packed[2][kMaximalTileRows], strided[2][kMaximalTileRows];
  /// The sum of two `packed` products, which is added as one: c = (add ? c : 0) + (a * b + a of `second` * b of `second`). Of
  /// `second` only a and b are read. Tiles have at most `two_rows` rows; 0: there are no such kernels.
  MultiplyTwo two[2][kMaximalTileRows];
  int two_rows;
  /// to[k * to_stride + i] = entry i of the strip at depth k. Entries up to the next whole vector are written
  /// too.
  void (*pack)(const Strip<float>&, float* to, int64_t to_stride);
  void (*pack_bf16)(const Strip<BFloat16>&, float* to, int64_t to_stride);
  /// Packs panels of a strip whose rows are neighbours in memory, one panel after the other, each as [depth][rows]. Their
  /// cache lines are read once, also where those of all depths fall into one set.
  void (*pack_panels)(const Strip<float>&, const Panels&, float* to);
  void (*pack_panels_bf16)(const Strip<BFloat16>&, const Panels&, float* to);
  /// Makes factors in bfloat16 of what pack() wrote, [depth][stride]: rounds them, and exchanges the rows of each pair of
  /// depths, which a tile then adds in the order of PairKernels. If `depth` is odd, a row is added.
  void (*round_pairs)(float* packed, int64_t depth, int64_t stride);
  /// add_products of gemm.h: adds entry by entry with the same multiply-adds as a tile.
  void (*add_products)(const Products<float>&, float* sums);
  void (*add_products_bf16)(const Products<BFloat16>&, float* sums);
  /// The same with factors in bfloat16.
  void (*add_pairs)(const Products<float>&, float* sums);
  void (*add_pairs_bf16)(const Products<BFloat16>&, float* sums);
  /// Thin products, by rows - 1.
  void (*thin[kMostThinRows])(const ThinProduct<float>&);
  void (*thin_bf16[kMostThinRows])(const ThinProduct<BFloat16>&);
  /// Kernels that multiply in bfloat16; null if the machine has no such instructions.
  const PairKernels* pairs = nullptr;
};

inline constexpr int kMaximalPairRows = 32;

/// Kernels with an instruction that multiplies factors in bfloat16. They are packed as words: the even depth in the lower half,
/// the odd one, or zero, in the upper half. Denormal factors, and sums that become denormal, count as zero. Each addition is
/// rounded once. For each word of AVX512-BF16 a sum s becomes
///   a[even] * b[even] + (a[odd] * b[odd] + s)
/// and for each 16 words of AMX, or what is left of a block of the depth,
///   s + ((a[0] * b[0] + a[2] * b[2] + ...) + (a[1] * b[1] + a[3] * b[3] + ...))
struct PairKernels {
  int tile_rows;  ///< at most kMaximalPairRows
  /// Kernels by vectors - 1 and rows - 1, with pairs for the depth of a tile: a is [pair][rows] or [rows][a_row_stride]. Without
  /// `packed` ones there is no pack_panels either.
  GemmKernels::Multiply packed[2][kMaximalTileRows], by_rows[2][kMaximalPairRows];
  /// Called by a thread that has multiplied tiles, if set.
  void (*release)();
  /// to[k / 2 * to_stride + i] = the word of entry i of the strip at depths k and k + 1. Entries up to `to_stride` are
  /// written too.
  void (*pack)(const Strip<float>&, float* to, int64_t to_stride);
  void (*pack_bf16)(const Strip<BFloat16>&, float* to, int64_t to_stride);
  /// to[i * to_stride + k / 2] = the same.
  void (*pack_rows)(const Strip<float>&, float* to, int64_t to_stride);
  void (*pack_rows_bf16)(const Strip<BFloat16>&, float* to, int64_t to_stride);
  /// GemmKernels::pack_panels for words.
  void (*pack_panels)(const Strip<float>&, const Panels&, float* to);
  void (*pack_panels_bf16)(const Strip<BFloat16>&, const Panels&, float* to);
  /// Packs contiguous columns in strips of two vectors, one after the other, each as pack() does; the last one may have one
  /// vector. Rows are read as a whole.
  void (*pack_columns)(const Strip<float>&, float* to);
  void (*pack_columns_bf16)(const Strip<BFloat16>&, float* to);
  /// Thin products whose B has contiguous columns, by rows - 1. The rows of a are words, also those of a_row_stride.
  void (*thin[kMostThinRows])(const ThinProduct<float>&);
  void (*thin_bf16[kMostThinRows])(const ThinProduct<BFloat16>&);

  /// True if A is always packed by rows.
  bool reads_by_rows() const { return packed[0][0] == nullptr; }
};

/// `set` must be available.
const GemmKernels& gemm_kernels(InstructionSet set);

/// Null if the compiler does not build them.
const GemmKernels* avx512_gemm_kernels();
/// Null if the compiler does not build them or the machine has no AVX512-BF16.
const PairKernels* avx512_pair_kernels();
/// Those of AVX-512 with the order of additions of AMX where factors are rounded to bfloat16. Null if avx512_pair_kernels() is;
/// the machine must have AMX-BF16.
const GemmKernels* amx_gemm_kernels();
const GemmKernels* avx2_gemm_kernels();
const GemmKernels* portable_gemm_kernels();

}  // namespace mtf
