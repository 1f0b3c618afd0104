// The source of the kernels in gemm_kernels.h, as templates of the vector width. Each gemm_INSTRUCTIONSET.cc
// includes it (by gemm_thin.h) last, after the pragma for its instruction set; the unnamed namespace keeps code compiled for
// one instruction set apart from the others.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <utility>

#include "engine/backend/cpu/contractions/bfloat16_factor.h"
#include "engine/backend/cpu/contractions/gemm_kernels.h"
#include "engine/backend/element.h"
#include "engine/base/dispatch.h"

namespace mtf {
namespace {

template <int kWidth>
struct VectorOf {
  typedef float Type __attribute__((vector_size(kWidth * sizeof(float))));
  typedef uint32_t Word __attribute__((vector_size(kWidth * sizeof(float))));
  typedef uint16_t Half __attribute__((vector_size(kWidth * sizeof(uint16_t))));
};
template <int kWidth>
using Vector = typename VectorOf<kWidth>::Type;

template <int kWidth>
MTF_INLINE void load(const float* from, Vector<kWidth>& to) {
  std::memcpy(&to, from, sizeof to);
}

/// Puts each half word behind a zero: the bits of the floats.
template <class Half, size_t... kLanes>
MTF_INLINE auto after_zeros(Half halves, std::index_sequence<kLanes...>) {
  constexpr int kHalves = sizeof...(kLanes) / 2;
  return __builtin_shufflevector(halves, Half{}, (kLanes % 2 == 0 ? kHalves : int{kLanes / 2})...);
}

template <int kWidth>
MTF_INLINE void load(const BFloat16* from, Vector<kWidth>& to) {
  typename VectorOf<kWidth>::Half half;
  std::memcpy(&half, from, sizeof half);
  if constexpr (kWidth >= 8) {
    const auto words = after_zeros(half, std::make_index_sequence<2 * kWidth>());
    std::memcpy(&to, &words, sizeof to);
  } else {
    const auto words = __builtin_convertvector(half, typename VectorOf<kWidth>::Word) << 16;
    std::memcpy(&to, &words, sizeof to);
  }
}

template <int kWidth>
MTF_INLINE void store(const Vector<kWidth>& from, float* to) {
  std::memcpy(to, &from, sizeof from);
}

/// c (+)= sums for one vector of columns.
template <int kWidth>
MTF_INLINE void save_sums(Vector<kWidth> sums, float* c, bool adds) {
  if (adds) {
    Vector<kWidth> before;
    load<kWidth>(c, before);
    sums = before + sums;
  }
  store<kWidth>(sums, c);
}

/// From this depth on, the tile of C is prefetched while the sums are computed.
constexpr int64_t kLongDepth = 128;

/// Elements of a cache line: floats, and those of any type.
constexpr int kLineElements = 16;
template <class T>
constexpr int kElementsOfLine = kLineElements * sizeof(float) / sizeof(T);

/// Adds the products of a tile to sums that stay in registers. The rows of a strided A are addressed relative to
/// every third one, which needs fewer address registers. The tile is a copy: its fields stay in registers, too.
template <int kWidth, int kRows, int kVectors, bool kPacked, bool kPacksB>
MTF_INLINE void add_products_of(const Tile tile, Vector<kWidth> (&sums)[kRows][kVectors]) {
  constexpr int kBases = (kRows + 2) / 3;
  const int64_t row_stride = kPacked ? 1 : tile.a_row_stride;
  const int64_t depth_stride = kPacked ? kRows : tile.a_depth_stride;
  const float* bases[kBases];
#pragma GCC unroll 8
  for (int i = 0; i < kBases; ++i) bases[i] = tile.a + 3 * i * row_stride;
  const float *b = tile.b, *a = tile.a;
  float* packed_b = tile.packed_b;
#pragma GCC unroll 4
  for (int64_t k = 0; k < tile.depth; ++k) {
    Vector<kWidth> column[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      load<kWidth>(b + v * kWidth, column[v]);
      if (v * kWidth % kLineElements == 0) __builtin_prefetch(b + tile.b_prefetch + v * kWidth);
      if (kPacksB) store<kWidth>(column[v], packed_b + v * kWidth);
    }
    b += tile.b_depth_stride;
    packed_b += kPacksB ? kVectors * kWidth : 0;
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const float value = kPacked ? a[r] : bases[r / 3][r % 3 * row_stride];
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sums[r][v] += value * column[v];
    }
    a += kRows;
#pragma GCC unroll 8
    for (int i = 0; i < kBases; ++i) bases[i] += depth_stride;
  }
}

/// Prefetches the tile of C where the sums take long.
template <int kWidth, int kRows, int kVectors>
MTF_INLINE void prefetch_tile(const Tile& tile, int64_t depth) {
  if (depth < kLongDepth) return;
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) __builtin_prefetch(tile.row(r) + v * kWidth);
  }
}

template <int kWidth, int kRows, int kVectors>
MTF_INLINE void save_tile(const Tile& tile, const Vector<kWidth> (&sums)[kRows][kVectors]) {
  if (tile.columns == kVectors * kWidth) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      float* row = tile.row(r);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) save_sums<kWidth>(sums[r][v], row + v * kWidth, tile.add);
    }
    return;
  }
  float edge[kRows][kVectors * kWidth];
  std::memcpy(edge, sums, sizeof edge);
  for (int r = 0; r < kRows; ++r) {
    float* c = tile.row(r);
    for (int64_t j = 0; j < tile.columns; ++j) c[j] = tile.add ? c[j] + edge[r][j] : edge[r][j];
  }
}

template <int kWidth, int kRows, int kVectors, bool kPacked>
MTF_INLINE void add_tile_products(const Tile& tile, Vector<kWidth> (&sums)[kRows][kVectors]) {
  if (tile.packed_b) {
    add_products_of<kWidth, kRows, kVectors, kPacked, true>(tile, sums);
  } else {
    add_products_of<kWidth, kRows, kVectors, kPacked, false>(tile, sums);
  }
}

/// Multiplies a tile with kRows * kVectors sums in registers.
template <int kWidth, int kRows, int kVectors, bool kPacked>
void multiply(const Tile& tile) {
  Vector<kWidth> sums[kRows][kVectors] = {};
  prefetch_tile<kWidth, kRows, kVectors>(tile, tile.depth);
  add_tile_products<kWidth, kRows, kVectors, kPacked>(tile, sums);
  save_tile<kWidth>(tile, sums);
}

/// Multiplies two packed tiles with 2 * kRows * kVectors sums in registers.
template <int kWidth, int kRows, int kVectors>
void multiply_two(const Tile& first, const Tile& second) {
  Vector<kWidth> sums[kRows][kVectors] = {}, more[kRows][kVectors] = {};
  add_tile_products<kWidth, kRows, kVectors, true>(first, sums);
  add_tile_products<kWidth, kRows, kVectors, true>(second, more);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sums[r][v] += more[r][v];
  }
  save_tile<kWidth>(first, sums);
}

/// Exchanges rows[i][j] and rows[j][i]: swaps the off-diagonal halves of ever smaller blocks.
template <int kWidth, int kBlock, size_t... kLanes>
MTF_INLINE void exchange(Vector<kWidth>& x, Vector<kWidth>& y, std::index_sequence<kLanes...>) {
  const Vector<kWidth> low =
      __builtin_shufflevector(x, y, (kLanes & kBlock ? kWidth + kLanes - kBlock : kLanes)...);
  y = __builtin_shufflevector(x, y, (kLanes & kBlock ? kWidth + kLanes : kLanes + kBlock)...);
  x = low;
}
template <int kWidth, int kBlock = kWidth / 2>
MTF_INLINE void transpose(Vector<kWidth> (&rows)[kWidth]) {
#pragma GCC unroll 16
  for (int i = 0; i < kWidth; ++i) {
    if (!(i & kBlock))
      exchange<kWidth, kBlock>(rows[i], rows[i + kBlock], std::make_index_sequence<kWidth>());
  }
  if constexpr (kBlock > 1) transpose<kWidth, kBlock / 2>(rows);
}

/// How far ahead packing prefetches, in entries.
constexpr int64_t kPrefetchedDepth = 64, kPrefetchedRows = 16;

/// Packs kWidth entries of a strip from `first` on, at the depths from begin to end - 1 in square blocks that are transposed in
/// registers. Entries beyond the width repeat the last one.
template <int kWidth, class T>
MTF_INLINE void pack_blocks(const Strip<T>& strip, int64_t first, int64_t begin, int64_t end, float* to,
                            int64_t to_stride) {
  const int64_t last = (strip.width - first < kWidth ? strip.width - first : kWidth) - 1;
  const T* from[kWidth];
#pragma GCC unroll 16
  for (int i = 0; i < kWidth; ++i) from[i] = strip.data + strip.offset(first + (i < last ? i : last));
  for (int64_t k = begin; k < end; k += kWidth) {
    Vector<kWidth> rows[kWidth];
#pragma GCC unroll 16
    for (int i = 0; i < kWidth; ++i) {
      load<kWidth>(from[i] + k, rows[i]);
      __builtin_prefetch(from[i] + k + kPrefetchedDepth, 0, 2);
    }
    transpose<kWidth>(rows);
#pragma GCC unroll 16
    for (int i = 0; i < kWidth; ++i) store<kWidth>(rows[i], to + (k + i) * to_stride + first);
  }
}

/// Packs a strip whose depth is contiguous.
template <int kWidth, class T>
MTF_INLINE void pack_along_depth(const Strip<T>& strip, float* to, int64_t to_stride) {
  constexpr int kHalf = kWidth / 2;
  int64_t k = strip.depth / kWidth * kWidth;
  for (int64_t first = 0; first < strip.width; first += kWidth)
    pack_blocks<kWidth>(strip, first, 0, k, to, to_stride);
  if constexpr (kHalf >= 4) {
    if (strip.depth - k >= kHalf) {
      // The last entries come first, as what is beyond the width reaches the next depth.
      for (int64_t first = (strip.width - 1) / kHalf * kHalf; first >= 0; first -= kHalf)
        pack_blocks<kHalf>(strip, first, k, k + kHalf, to, to_stride);
      k += kHalf;
    }
  }
  for (; k < strip.depth; ++k) {
    for (int64_t i = 0; i < strip.width; ++i) to[k * to_stride + i] = widen(strip.data[strip.offset(i) + k]);
    for (int64_t i = strip.width; i < to_stride; ++i) to[k * to_stride + i] = 0;
  }
}

/// Copies neighbours in vectors, of which the last two may overlap.
template <int kWidth, class T>
MTF_INLINE void pack_run(const T* from, int64_t count, float* to) {
  if (count < kWidth) {
    if constexpr (kWidth > 4) {
      pack_run<kWidth / 2>(from, count, to);
    } else {
      for (int64_t i = 0; i < count; ++i) to[i] = widen(from[i]);
    }
    return;
  }
  for (int64_t i = 0; i < count; i += kWidth) {
    const int64_t at = i < count - kWidth ? i : count - kWidth;
    Vector<kWidth> entries;
    load<kWidth>(from + at, entries);
    store<kWidth>(entries, to + at);
  }
}

/// Packs a strip of at most kMaximalTileRows rows with offsets. Runs of neighbours are copied as whole vectors, whose
/// surplus is overwritten by what follows; reading it is safe before the last depth, where the next depth is farther away.
template <int kWidth, class T>
MTF_INLINE void pack_runs(const Strip<T>& strip, float* to, int64_t to_stride) {
  int64_t begin[kMaximalTileRows + 1], runs = 0;
  for (int64_t i = 0; i < strip.width; ++i) {
    if (i == 0 || strip.offsets[i] != strip.offsets[i - 1] + 1) begin[runs++] = i;
  }
  begin[runs] = strip.width;
  const bool long_runs = strip.width >= 3 * runs;
  int64_t k = 0;
  if (long_runs && strip.depth_stride >= kWidth) {
    for (; k + 1 < strip.depth; ++k, to += to_stride) {
      const T* from = strip.data + k * strip.depth_stride;
      __builtin_prefetch(from + kPrefetchedRows * strip.depth_stride);
      for (int64_t r = 0; r < runs; ++r) {
        for (int64_t i = begin[r]; i < begin[r + 1]; i += kWidth) {
          Vector<kWidth> entries;
          load<kWidth>(from + strip.offsets[i], entries);
          store<kWidth>(entries, to + i);
        }
      }
    }
  }
  for (; k < strip.depth; ++k, to += to_stride) {
    const T* from = strip.data + k * strip.depth_stride;
    if (long_runs) {
      for (int64_t r = 0; r < runs; ++r)
        pack_run<kWidth>(from + strip.offsets[begin[r]], begin[r + 1] - begin[r], to + begin[r]);
    } else {
      for (int64_t i = 0; i < strip.width; ++i) to[i] = widen(from[strip.offsets[i]]);
    }
    for (int64_t i = strip.width; i < to_stride; ++i) to[i] = 0;
  }
}

template <int kWidth, class T>
void pack(const Strip<T>& strip, float* to, int64_t to_stride) {
  // Windows over one channel are neighbours, and overlap.
  const bool has_runs =
      strip.offsets && strip.width > 1 && strip.offsets[1] == strip.offsets[0] + 1 && strip.depth < kWidth;
  if (strip.depth_stride == 1 && !strip.places && (strip.offsets || strip.stride != 1) && !has_runs) {
    pack_along_depth<kWidth>(strip, to, to_stride);
    return;
  }
  if (strip.offsets) {
    pack_runs<kWidth>(strip, to, to_stride);
    return;
  }
  // The rest of a row is also read as a whole vector if the next row follows it in memory; the surplus is
  // overwritten or padding.
  const int64_t whole = strip.stride == 1 ? strip.width / kWidth * kWidth : 0;
  const bool reads_on = strip.stride == 1 && strip.depth_stride >= kWidth;
  for (int64_t k = 0; k < strip.depth; ++k, to += to_stride) {
    const T* from = strip.data + strip.depth_offset(k);
    const int64_t end = reads_on && k + 1 < strip.depth ? strip.width : whole;
    __builtin_prefetch(from + kPrefetchedRows * strip.depth_stride);
    int64_t i = 0;
    for (; i < end; i += kWidth) {
      Vector<kWidth> entries;
      load<kWidth>(from + i, entries);
      store<kWidth>(entries, to + i);
    }
    for (; i < strip.width; ++i) to[i] = widen(from[i * strip.stride]);
    for (; i < to_stride; ++i) to[i] = 0;
  }
}

/// Depths of a panel that are packed before those of the next one: their lines, which the panels share, stay in L1.
constexpr int64_t kDepthsOfPanel = 8;

/// A panel's rows are copied as one vector, whose surplus is overwritten by the panel's next depths; the last ones are copied
/// row by row, so that it never reaches the next panel. Reading it is safe before the last depth, where the next one follows in
/// memory.
template <int kWidth, class T>
void pack_panels(const Strip<T>& strip, const Panels& panels, float* to) {
  const int64_t last = (kWidth + panels.size - 1) / panels.size - 1;  // depths that the surplus reaches
  const int64_t whole = strip.depth_stride >= kWidth ? strip.depth - (last > 0 ? last : 1) : 0;
  for (int64_t begin = 0; begin < strip.depth; begin += kDepthsOfPanel) {
    const int64_t end = begin + kDepthsOfPanel < strip.depth ? begin + kDepthsOfPanel : strip.depth;
    const T* first = strip.data + begin * strip.depth_stride;
    float* panel = to;
    for (int64_t p = 0; p < panels.count; ++p) {
      const int64_t rows = panels.rows(p);
      const T* from = first;
      float* packed = panel + begin * rows;
      for (int64_t k = begin; k < end; ++k, from += strip.depth_stride, packed += rows) {
        if (k < whole) {
          Vector<kWidth> entries;
          load<kWidth>(from, entries);
          store<kWidth>(entries, packed);
        } else {
          for (int64_t i = 0; i < rows; ++i) packed[i] = widen(from[i]);
        }
      }
      first += rows;
      panel += rows * strip.depth;
    }
  }
}

/// An instantiation for each width keeps instruction sets apart.
template <int kWidth>
void round_pairs(float* packed, int64_t depth, int64_t stride) {
  for (int64_t k = 0; k < depth; k += 2, packed += 2 * stride) {
    float *even = packed, *odd = packed + stride;
    const bool has_odd = k + 1 < depth;
    for (int64_t i = 0; i < stride; ++i) {
      const float first = std::bit_cast<float>(factor_bits(even[i]));
      even[i] = has_odd ? std::bit_cast<float>(factor_bits(odd[i])) : 0.0f;
      odd[i] = first;
    }
  }
}

template <class T>
MTF_INLINE float factor(T x) {
  return std::bit_cast<float>(factor_bits(widen(x)));
}

template <class T>
void add_pairs(const Products<T>& products, float* __restrict__ sums) {
  for (int64_t k = 0; k < products.depth; k += 2) {
    const T *a = products.a_at(k), *b = products.b_at(k);
    if (k + 1 < products.depth) {
      const T *odd_a = products.a_at(k + 1), *odd_b = products.b_at(k + 1);
      for (int64_t j = 0; j < products.size; ++j) sums[j] += factor(odd_a[j]) * factor(odd_b[j]);
    }
    for (int64_t j = 0; j < products.size; ++j) sums[j] += factor(a[j]) * factor(b[j]);
  }
}

template <class T>
void add_products(const Products<T>& products, float* __restrict__ sums) {
  for (int64_t k = 0; k < products.depth; ++k) {
    const T *a = products.a_at(k), *b = products.b_at(k);
    for (int64_t j = 0; j < products.size; ++j) sums[j] += widen(a[j]) * widen(b[j]);
  }
}

template <int kWidth, int kVectors, bool kPacked, size_t... kRows>
constexpr void fill(GemmKernels::Multiply* by_rows, std::index_sequence<kRows...>) {
  ((by_rows[kRows] = multiply<kWidth, kRows + 1, kVectors, kPacked>), ...);
}

template <int kWidth, int kVectors, size_t... kRows>
constexpr void fill_two(GemmKernels::MultiplyTwo* by_rows, std::index_sequence<kRows...>) {
  ((by_rows[kRows] = multiply_two<kWidth, kRows + 1, kVectors>), ...);
}

template <int kWidth, int kTileRows>
constexpr GemmKernels make_kernels() {
  // With fewer rows than these a tile waits for its additions: sets of 16 registers have no room for two products.
  constexpr int kTwoRows = kTileRows / 2 >= 7 ? 7 : 0;
  static_assert(kTileRows <= kMaximalTileRows && kTileRows <= kWidth);
  GemmKernels kernels{kTileRows,
                      kWidth,
                      {},
                      {},
                      {},
                      kTwoRows,
                      pack<kWidth, float>,
                      pack<kWidth, BFloat16>,
                      pack_panels<kWidth, float>,
                      pack_panels<kWidth, BFloat16>,
                      round_pairs<kWidth>,
                      add_products<float>,
                      add_products<BFloat16>,
                      add_pairs<float>,
                      add_pairs<BFloat16>,
                      {},
                      {}};
  const auto rows = std::make_index_sequence<kTileRows>();
  fill<kWidth, 1, true>(kernels.packed[0], rows);
  fill<kWidth, 2, true>(kernels.packed[1], rows);
  fill<kWidth, 1, false>(kernels.strided[0], rows);
  fill<kWidth, 2, false>(kernels.strided[1], rows);
  fill_two<kWidth, 1>(kernels.two[0], std::make_index_sequence<kTwoRows>());
  fill_two<kWidth, 2>(kernels.two[1], std::make_index_sequence<kTwoRows>());
  return kernels;
}

}  // namespace
}  // namespace mtf
