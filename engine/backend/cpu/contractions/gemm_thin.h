// Kernels of thin products, whose A has a few rows (texts that are decoded one token at a time): they are bound by reading B,
// so B is read once, in place and in long runs. It is prefetched into L2: with prefetches into L1 they took up to 1.8 times as
// long. As in gemm_tiles.h, the unnamed namespace keeps instruction sets apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "engine/backend/cpu/contractions/gemm_kernels.h"
#include "engine/backend/cpu/contractions/gemm_tiles.h"
#include "engine/backend/element.h"
#include "engine/base/dispatch.h"

namespace mtf {
namespace {

/// Columns that are summed at a time: the sums and the runs of B that are read side by side stay in L1, with eight rows in L2.
constexpr int64_t kThinColumns = 1024;
/// The distance between rows of sums, which fall into different sets of L1.
constexpr int64_t kSumsStride = kThinColumns + 32;

/// sums[r][j] += sum over depths k ... k + kDepths - 1 of a[r][k] * b[k][column + j], for whole vectors of columns.
template <int kWidth, int kRows, int kDepths, class T>
MTF_INLINE void add_depths(const ThinProduct<T>& product, int64_t k, int64_t column, int64_t columns,
                           float* sums) {
  const float* a = product.a + k;
  const T* b = product.b + k * product.b_depth_stride + column;
  const int64_t b_depth_stride = product.b_depth_stride;
  float factors[kRows][kDepths];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) std::memcpy(factors[r], a + r * product.a_row_stride, sizeof factors[r]);
  for (int64_t j = 0; j < columns; j += kWidth) {
    Vector<kWidth> sum[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) load<kWidth>(sums + r * kSumsStride + j, sum[r]);
#pragma GCC unroll 8
    for (int i = 0; i < kDepths; ++i) {
      Vector<kWidth> row;
      load<kWidth>(b + i * b_depth_stride + j, row);
      __builtin_prefetch(b + (i + kDepths) * b_depth_stride + j, 0, 2);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) sum[r] += factors[r][i] * row;
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) store<kWidth>(sum[r], sums + r * kSumsStride + j);
  }
}

/// c (+)= the products of kVectors vectors of columns, whose sums stay in registers. Prefetches kAhead elements for each depth
/// from `next` on.
template <int kWidth, int kRows, int kVectors, int kAhead, class T>
MTF_INLINE void multiply_narrow(const ThinProduct<T>& product, const T* next) {
  for (int64_t block = 0; block < product.depth; block += product.block) {
    const int64_t end = block + product.block < product.depth ? block + product.block : product.depth;
    Vector<kWidth> sums[kRows][kVectors] = {};
    if (product.continues && block == 0) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v)
          load<kWidth>(product.c + r * product.c_row_stride + v * kWidth, sums[r][v]);
      }
    }
    const T* b = product.b + block * product.b_depth_stride;
    for (int64_t k = block; k < end; ++k, b += product.b_depth_stride) {
      Vector<kWidth> row[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) load<kWidth>(b + v * kWidth, row[v]);
#pragma GCC unroll 4
      for (int i = 0; i < kAhead; i += kElementsOfLine<T>) __builtin_prefetch(next + i, 0, 2);
      next += kAhead;
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const float factor = product.a[r * product.a_row_stride + k];
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sums[r][v] += factor * row[v];
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v)
        save_sums<kWidth>(sums[r][v], product.c + r * product.c_row_stride + v * kWidth,
                          block > 0 || product.adds);
    }
  }
}

/// The most sums that stay in registers beside factors.
template <int kWidth>
constexpr int kMostSums = kWidth >= 16 ? 32 : 12;

/// The same in parts whose sums stay in registers: half of the rows at a time if two vectors of all have too many sums, and two
/// vectors at a time if all have. If that takes several passes over B, each prefetches a part of what follows B in memory, which
/// is the next strip: the first pass over it would wait for most of its lines.
template <int kWidth, int kRows, int kVectors, class T>
MTF_INLINE void multiply_strip(ThinProduct<T> product) {
  constexpr int kGroups = 2 * kRows <= kMostSums<kWidth> ? 1 : 2, kGroup = (kRows + kGroups - 1) / kGroups;
  constexpr int kPart = kGroup * kVectors <= kMostSums<kWidth> ? kVectors : 2;
  constexpr int kPasses = kGroups * (kVectors / kPart);
  constexpr int kAhead = kPasses > 1 ? kVectors * kWidth / kPasses : 0;
  const T* next = product.b + product.depth * product.b_depth_stride;
  for (int v = 0; v < kVectors; v += kPart) {
    multiply_narrow<kWidth, kGroup, kPart, kAhead>(product, next);
    next += product.depth * kAhead;
    if constexpr (kGroups == 2) {
      multiply_narrow<kWidth, kRows - kGroup, kPart, kAhead>(product.rows_from(kGroup), next);
      next += product.depth * kAhead;
    }
    product.b += kPart * kWidth;
    product.c += kPart * kWidth;
  }
}

/// Calls add(k, end, column, columns, sums) for each block of depths and some columns, which adds the products at depths
/// k ... end - 1 to the sums.
template <int kWidth, int kRows, class T, class Add>
MTF_INLINE void sum_along_columns(const ThinProduct<T>& product, const Add& add) {
  float sums[kRows * kSumsStride];
  for (int64_t column = 0; column < product.columns; column += kThinColumns) {
    const int64_t columns = product.columns - column < kThinColumns ? product.columns - column : kThinColumns;
    for (int64_t block = 0; block < product.depth; block += product.block) {
      const int64_t end = block + product.block < product.depth ? block + product.block : product.depth;
      for (int r = 0; r < kRows; ++r) {
        if (product.continues && block == 0) {
          std::memcpy(sums + r * kSumsStride, product.c + r * product.c_row_stride + column,
                      columns * sizeof(float));
        } else {
          std::memset(sums + r * kSumsStride, 0, columns * sizeof(float));
        }
      }
      add(block, end, column, columns, sums);
      for (int r = 0; r < kRows; ++r) {
        float* c = product.c + r * product.c_row_stride + column;
        for (int64_t j = 0; j < columns; j += kWidth) {
          Vector<kWidth> sum;
          load<kWidth>(sums + r * kSumsStride + j, sum);
          save_sums<kWidth>(sum, c + j, block > 0 || product.adds);
        }
      }
    }
  }
}

/// The columns of each depth of B are contiguous: several depths are read side by side, fewer where a line has several vectors,
/// between which it must stay in L1, also if the lines of all depths fall into one set.
template <int kWidth, int kRows, class T>
MTF_INLINE void multiply_along_columns(const ThinProduct<T>& product) {
  constexpr int kDepths = kRows == 1 && kWidth >= kLineElements ? 8 : 4;
  sum_along_columns<kWidth, kRows>(
      product, [&](int64_t k, int64_t end, int64_t column, int64_t columns, float* sums)
                   __attribute__((always_inline)) {
                     for (; k + kDepths <= end; k += kDepths)
                       add_depths<kWidth, kRows, kDepths>(product, k, column, columns, sums);
                     for (; k < end; ++k) add_depths<kWidth, kRows, 1>(product, k, column, columns, sums);
                   });
}

/// Loads the 16 bytes at each of kWidth / 4 places that are `distance` apart.
template <int kWidth, class T>
MTF_INLINE Vector<kWidth> load_quarters(const T* from, int64_t distance) {
  Vector<kWidth> quarters;
  if constexpr (kWidth == 4) {
    std::memcpy(&quarters, from, sizeof quarters);
  } else {
    const auto low = load_quarters<kWidth / 2>(from, distance);
    const auto high = load_quarters<kWidth / 2>(from + kWidth / 8 * distance, distance);
    quarters = [&]<size_t... kLanes>(std::index_sequence<kLanes...>) {
      return __builtin_shufflevector(low, high, kLanes...);
    }
    (std::make_index_sequence<kWidth>());
  }
  return quarters;
}

/// words[i] [kWidth] = word i of the columns that begin at `from`, for four words that are contiguous.
template <int kWidth, class T>
MTF_INLINE void load_four_words(const T* from, int64_t column_stride, Vector<kWidth>* words) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) words[i] = load_quarters<kWidth>(from + i * column_stride, 4 * column_stride);
  const auto lanes = std::make_index_sequence<kWidth>();
  exchange<kWidth, 2>(words[0], words[2], lanes);
  exchange<kWidth, 2>(words[1], words[3], lanes);
  exchange<kWidth, 1>(words[0], words[1], lanes);
  exchange<kWidth, 1>(words[2], words[3], lanes);
}

/// Depths that 16 bytes hold.
template <class T>
constexpr int kDepthsAtOnce = 16 / sizeof(T);

/// entries[k] [kWidth] = depth k of the columns that begin at `from`, for depths that are contiguous.
template <int kWidth>
MTF_INLINE void load_depths(const float* from, int64_t column_stride, Vector<kWidth> (&entries)[4]) {
  load_four_words<kWidth>(from, column_stride, entries);
}
template <int kWidth>
MTF_INLINE void load_depths(const BFloat16* from, int64_t column_stride, Vector<kWidth> (&entries)[8]) {
  Vector<kWidth> pairs[4];
  load_four_words<kWidth>(from, column_stride, pairs);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    typename VectorOf<kWidth>::Word word;
    std::memcpy(&word, &pairs[i], sizeof word);
    const auto even = word << 16, odd = word >> 16 << 16;
    std::memcpy(&entries[2 * i], &even, sizeof even);
    std::memcpy(&entries[2 * i + 1], &odd, sizeof odd);
  }
}

/// How far ahead columns are prefetched, in entries.
constexpr int64_t kDepthAhead = 128;

/// Multiplies kGroups vectors of columns from `column` on, whose sums do not wait for each other.
template <int kWidth, int kRows, int kGroups, class T>
MTF_INLINE void multiply_groups(const ThinProduct<T>& product, int64_t column) {
  constexpr int kDepths = kDepthsAtOnce<T>;
  const int64_t stride = product.b_column_stride, a_row_stride = product.a_row_stride;
  for (int64_t block = 0; block < product.depth; block += product.block) {
    const int64_t end = block + product.block < product.depth ? block + product.block : product.depth;
    Vector<kWidth> sums[kGroups][kRows] = {};
    if (product.continues && block == 0) {
      for (int g = 0; g < kGroups; ++g) {
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r)
          load<kWidth>(product.c + r * product.c_row_stride + column + g * kWidth, sums[g][r]);
      }
    }
    const float* a = product.a + block;
    const T* b = product.b + column * stride + block;
    int64_t k = block;
    for (; k + kDepths <= end; k += kDepths, a += kDepths, b += kDepths) {
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) {
        Vector<kWidth> entries[kDepths];
        load_depths<kWidth>(b + g * kWidth * stride, stride, entries);
#pragma GCC unroll 8
        for (int i = 0; i < kDepths; ++i) {
#pragma GCC unroll 8
          for (int r = 0; r < kRows; ++r) sums[g][r] += a[r * a_row_stride + i] * entries[i];
        }
      }
      // A quarter of the columns' lines, for each quarter of a line of depths.
      const int64_t ahead = k + kDepthAhead < product.depth
                                ? kDepthAhead
                                : kGroups * kWidth * stride + kDepthAhead - product.depth;
      const T* next = b + ahead + k / kDepths % 4 * (kGroups * kWidth / 4) * stride;
#pragma GCC unroll 16
      for (int j = 0; j < kGroups * kWidth / 4; ++j) __builtin_prefetch(next + j * stride, 0, 2);
    }
    for (int g = 0; g < kGroups; ++g) {
      for (int64_t i = 0; i < end - k; ++i) {
        Vector<kWidth> entries;
        for (int j = 0; j < kWidth; ++j) entries[j] = widen(b[(g * kWidth + j) * stride + i]);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) sums[g][r] += a[r * a_row_stride + i] * entries;
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        save_sums<kWidth>(sums[g][r], product.c + r * product.c_row_stride + column + g * kWidth,
                          block > 0 || product.adds);
      }
    }
  }
}

/// The depths of each column of B are contiguous: blocks are transposed in registers.
template <int kWidth, int kRows, class T>
MTF_INLINE void multiply_along_depth(const ThinProduct<T>& product) {
  constexpr int kGroups = kRows <= 4 ? 2 : 1;
  int64_t column = 0;
  for (; column + kGroups * kWidth <= product.columns; column += kGroups * kWidth)
    multiply_groups<kWidth, kRows, kGroups>(product, column);
  for (; column < product.columns; column += kWidth) multiply_groups<kWidth, kRows, 1>(product, column);
}

template <int kWidth, int kRows, class T>
void multiply_thin(const ThinProduct<T>& product) {
  if (product.b_column_stride == 1 && product.columns == 2 * kWidth) {
    multiply_strip<kWidth, kRows, 2, T>(product);
  } else if (product.b_column_stride == 1 && product.columns == 4 * kWidth) {
    multiply_strip<kWidth, kRows, 4, T>(product);
  } else if (product.b_column_stride == 1) {
    multiply_along_columns<kWidth, kRows, T>(product);
  } else {
    multiply_along_depth<kWidth, kRows, T>(product);
  }
}

template <int kWidth, size_t... kRows>
constexpr void fill_thin(GemmKernels& kernels, std::index_sequence<kRows...>) {
  ((kernels.thin[kRows] = multiply_thin<kWidth, kRows + 1, float>), ...);
  ((kernels.thin_bf16[kRows] = multiply_thin<kWidth, kRows + 1, BFloat16>), ...);
}

/// All kernels of an instruction set.
template <int kWidth, int kTileRows>
constexpr GemmKernels make_all_kernels() {
  GemmKernels kernels = make_kernels<kWidth, kTileRows>();
  fill_thin<kWidth>(kernels, std::make_index_sequence<kMostThinRows>());
  return kernels;
}

}  // namespace
}  // namespace mtf
