// Kernels of products in bfloat16 for AVX512-BF16, with tiles of up to 14 x 32.
#include "engine/backend/cpu/contractions/gemm_kernels.h"

#if MTF_HAS_INSTRUCTION_SETS

#include <immintrin.h>

#include <bit>
#include <cstring>
#include <utility>

#include "engine/backend/cpu/contractions/bfloat16_factor.h"
#include "engine/backend/element.h"
#include "engine/base/dispatch.h"

#pragma GCC target("arch=x86-64-v4,avx512bf16")

#include "engine/backend/cpu/contractions/avx512_lanes.h"
#include "engine/backend/cpu/contractions/gemm_thin.h"
#include "engine/backend/cpu/contractions/gemm_tiles.h"

namespace mtf {
namespace {

constexpr int kRowsOfTile = 14;
/// The entries of a vector of words.
constexpr int64_t kPairedLanes = 2 * kLanes;

/// The words of 32 neighbours, of which the first `count` exist and the others are zero.
MTF_INLINE __m512i load_neighbours(const float* from, int64_t count) {
  if (count >= kPairedLanes)
    return (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(from + kLanes), _mm512_loadu_ps(from));
  const __m512 low = _mm512_maskz_loadu_ps(first_lanes(count), from);
  const __m512 high = count > kLanes ? _mm512_maskz_loadu_ps(first_lanes(count - kLanes), from + kLanes)
                                     : _mm512_setzero_ps();
  return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}
MTF_INLINE __m512i load_neighbours(const BFloat16* from, int64_t count) {
  if (count >= kPairedLanes) return _mm512_loadu_si512(from);
  return _mm512_maskz_loadu_epi16(static_cast<__mmask32>((uint32_t{1} << count) - 1), from);
}

/// Word i of the result has first[i] in its lower half and second[i] in its upper one, for as many as `lanes` has.
MTF_INLINE __m512i load_words(const float* first, const float* second, __mmask16 lanes) {
  const __m512i halves = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7,
                                          22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const __m512 low = _mm512_maskz_loadu_ps(lanes, first),
               high = second ? _mm512_maskz_loadu_ps(lanes, second) : _mm512_setzero_ps();
  return _mm512_permutexvar_epi16(halves, (__m512i)_mm512_cvtne2ps_pbh(high, low));
}
MTF_INLINE __m512i load_words(const BFloat16* first, const BFloat16* second, __mmask16 lanes) {
  using Half = VectorOf<kLanes>::Half;
  using Word = VectorOf<kLanes>::Word;
  const Word low = __builtin_convertvector((Half)_mm256_maskz_loadu_epi16(lanes, first), Word);
  if (!second) return (__m512i)low;
  const Word high = __builtin_convertvector((Half)_mm256_maskz_loadu_epi16(lanes, second), Word);
  return (__m512i)(low | high << 16);
}

/// The word of entries k and k + 1 of row or column i of a strip, with zero behind the last depth.
template <class T>
MTF_INLINE uint32_t word_at(const Strip<T>& strip, int64_t i, int64_t k) {
  const T* from = strip.data + strip.offset(i);
  const uint32_t low = factor_bits(widen(from[strip.depth_offset(k)])) >> 16;
  return k + 1 < strip.depth ? low | factor_bits(widen(from[strip.depth_offset(k + 1)])) : low;
}

template <class T>
void pack_rows(const Strip<T>& strip, float* to, int64_t to_stride) {
  const bool neighbours = strip.depth_stride == 1 && !strip.places;
  for (int64_t i = 0; i < strip.width; ++i) {
    float* row = to + i * to_stride;
    if (!neighbours) {
      for (int64_t k = 0; k < strip.depth; k += 2) {
        const uint32_t word = word_at(strip, i, k);
        std::memcpy(row + k / 2, &word, sizeof word);
      }
      continue;
    }
    const T* from = strip.data + strip.offset(i);
    int64_t k = 0;
    for (; k + kPairedLanes <= strip.depth; k += kPairedLanes)
      _mm512_storeu_si512(row + k / 2, load_neighbours(from + k, kPairedLanes));
    const int64_t rest = strip.depth - k;
    if (rest > 0)
      _mm512_mask_storeu_epi32(row + k / 2, first_lanes((rest + 1) / 2), load_neighbours(from + k, rest));
  }
}

/// Packs a strip whose depth is contiguous: squares of words are transposed in registers. Columns beyond the width repeat
/// the last one.
template <class T>
MTF_INLINE void pack_words_along_depth(const Strip<T>& strip, float* to, int64_t to_stride) {
  for (int64_t first = 0; first < strip.width; first += kLanes) {
    const int64_t last = (strip.width - first < kLanes ? strip.width - first : kLanes) - 1;
    const T* from[kLanes];
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) from[i] = strip.data + strip.offset(first + (i < last ? i : last));
    for (int64_t k = 0; k < strip.depth; k += kPairedLanes) {
      const int64_t depth = strip.depth - k < kPairedLanes ? strip.depth - k : kPairedLanes;
      Vector<kLanes> rows[kLanes];
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) {
        rows[i] = (Vector<kLanes>)load_neighbours(from[i] + k, depth);
        __builtin_prefetch(from[i] + k + kPrefetchedDepth, 0, 2);
      }
      transpose<kLanes>(rows);
      float* row = to + k / 2 * to_stride + first;
      if (depth == kPairedLanes) {
#pragma GCC unroll 16
        for (int i = 0; i < kLanes; ++i) store<kLanes>(rows[i], row + i * to_stride);
      } else {
        for (int64_t i = 0; i < (depth + 1) / 2; ++i) store<kLanes>(rows[i], row + i * to_stride);
      }
    }
  }
}

/// Packs a strip of at most kMaximalTileRows rows with offsets, in runs of neighbours.
template <class T>
MTF_INLINE void pack_words_of_runs(const Strip<T>& strip, float* to, int64_t to_stride) {
  int64_t begin[kMaximalTileRows + 1], runs = 0;
  for (int64_t i = 0; i < strip.width; ++i) {
    if (i == 0 || strip.offsets[i] != strip.offsets[i - 1] + 1) begin[runs++] = i;
  }
  begin[runs] = strip.width;
  for (int64_t k = 0; k < strip.depth; k += 2, to += to_stride) {
    const T* first = strip.data + strip.depth_offset(k);
    const T* second = k + 1 < strip.depth ? strip.data + strip.depth_offset(k + 1) : nullptr;
    __builtin_prefetch(first + kPrefetchedRows * strip.depth_stride);
    for (int64_t r = 0; r < runs; ++r) {
      const int64_t offset = strip.offsets[begin[r]];
      const __mmask16 lanes = first_lanes(begin[r + 1] - begin[r]);
      _mm512_mask_storeu_epi32(to + begin[r], lanes,
                               load_words(first + offset, second ? second + offset : nullptr, lanes));
    }
  }
}

template <class T>
void pack_words(const Strip<T>& strip, float* to, int64_t to_stride) {
  if (strip.depth_stride == 1 && !strip.places && to_stride % kLanes == 0 &&
      (strip.offsets || strip.stride != 1)) {
    pack_words_along_depth(strip, to, to_stride);
    return;
  }
  if (strip.offsets) {
    pack_words_of_runs(strip, to, to_stride);
    return;
  }
  for (int64_t k = 0; k < strip.depth; k += 2, to += to_stride) {
    const T* first = strip.data + strip.depth_offset(k);
    const T* second = k + 1 < strip.depth ? strip.data + strip.depth_offset(k + 1) : nullptr;
    if (strip.stride != 1) {
      for (int64_t i = 0; i < to_stride; ++i) {
        const uint32_t word = i < strip.width ? word_at(strip, i, k) : 0;
        std::memcpy(to + i, &word, sizeof word);
      }
      continue;
    }
    __builtin_prefetch(first + kPrefetchedRows * strip.depth_stride);
    __builtin_prefetch(first + (kPrefetchedRows + 1) * strip.depth_stride);
    for (int64_t i = 0; i < to_stride; i += kLanes) {
      const __mmask16 lanes = first_lanes(strip.width - i);
      const __m512i words = load_words(first + i, second ? second + i : nullptr, lanes);
      _mm512_mask_storeu_epi32(to + i, first_lanes(to_stride - i), words);
    }
  }
}

/// A panel's words are stored as one vector, whose surplus is overwritten by the panel's next pair of depths; the last pair
/// has none.
template <class T>
void pack_word_panels(const Strip<T>& strip, const Panels& panels, float* to) {
  const int64_t pairs = (strip.depth + 1) / 2;
  for (int64_t pair = 0; pair < pairs; ++pair) {
    const T* first = strip.data + 2 * pair * strip.depth_stride;
    const T* second = 2 * pair + 1 < strip.depth ? first + strip.depth_stride : nullptr;
    for (int64_t i = 0; i < strip.width; i += kLineElements) {
      __builtin_prefetch(first + kPrefetchedRows * strip.depth_stride + i);
      __builtin_prefetch(first + (kPrefetchedRows + 1) * strip.depth_stride + i);
    }
    float* panel = to;
    for (int64_t p = 0; p < panels.count; ++p) {
      const int64_t rows = panels.rows(p);
      const __mmask16 lanes = first_lanes(rows);
      const __m512i words = load_words(first, second, lanes);
      if (pair + 1 < pairs) {
        _mm512_storeu_si512(panel + pair * rows, words);
      } else {
        _mm512_mask_storeu_epi32(panel + pair * rows, lanes, words);
      }
      first += rows;
      if (second) second += rows;
      panel += rows * pairs;
    }
  }
}

template <class T>
void pack_word_columns(const Strip<T>& strip, float* to) {
  const int64_t pairs = (strip.depth + 1) / 2, in_strips = strip.width / kPairedLanes * kPairedLanes;
  for (int64_t pair = 0; pair < pairs; ++pair) {
    const T* first = strip.data + 2 * pair * strip.depth_stride;
    const T* second = 2 * pair + 1 < strip.depth ? first + strip.depth_stride : nullptr;
    float* row = to + pair * kPairedLanes;
    for (int64_t i = 0; i < in_strips; i += kPairedLanes, row += pairs * kPairedLanes) {
      for (int64_t v = 0; v < kPairedLanes; v += kLanes) {
        const T* low = first + i + v;
        __builtin_prefetch(low + kPrefetchedRows * strip.depth_stride);
        __builtin_prefetch(low + (kPrefetchedRows + 1) * strip.depth_stride);
        _mm512_storeu_si512(row + v, load_words(low, second ? second + i + v : nullptr, 0xffff));
      }
    }
    const int64_t rest = strip.width - in_strips, width = rest > kLanes ? kPairedLanes : kLanes;
    row = to + in_strips * pairs + pair * width;
    for (int64_t v = 0; v < rest; v += kLanes) {
      const __mmask16 lanes = first_lanes(rest - v);
      _mm512_storeu_si512(
          row + v, load_words(first + in_strips + v, second ? second + in_strips + v : nullptr, lanes));
    }
  }
}

/// Adds the products of a tile, as add_products_of() does.
template <int kRows, int kVectors, bool kPacked>
MTF_INLINE void add_pairs_of(const Tile tile, Vector<kLanes> (&sums)[kRows][kVectors]) {
  constexpr int kBases = (kRows + 2) / 3;
  const int64_t row_stride = kPacked ? 1 : tile.a_row_stride;
  const int64_t depth_stride = kPacked ? kRows : 1;
  const float* bases[kBases];
#pragma GCC unroll 8
  for (int i = 0; i < kBases; ++i) bases[i] = tile.a + 3 * i * row_stride;
  const float *b = tile.b, *a = tile.a;
#pragma GCC unroll 4
  for (int64_t k = 0; k < tile.depth; ++k) {
    __m512bh column[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      column[v] = (__m512bh)_mm512_loadu_si512(b + v * kLanes);
      __builtin_prefetch(b + tile.b_prefetch + v * kLanes);
    }
    b += tile.b_depth_stride;
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      int word;
      std::memcpy(&word, kPacked ? a + r : bases[r / 3] + r % 3 * row_stride, sizeof word);
      const __m512bh factors = (__m512bh)_mm512_set1_epi32(word);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sums[r][v] = _mm512_dpbf16_ps(sums[r][v], factors, column[v]);
    }
    a += kRows;
#pragma GCC unroll 8
    for (int i = 0; i < kBases; ++i) bases[i] += depth_stride;
  }
}

template <int kRows, int kVectors, bool kPacked>
void multiply_pairs(const Tile& tile) {
  Vector<kLanes> sums[kRows][kVectors] = {};
  prefetch_tile<kLanes, kRows, kVectors>(tile, 2 * tile.depth);
  add_pairs_of<kRows, kVectors, kPacked>(tile, sums);
  save_tile<kLanes>(tile, sums);
}

/// As add_depths(), for the depths of kPairs words of a from k on, of which the last one has no odd depth if not `kWhole`.
template <int kRows, int kPairs, bool kWhole, class T>
MTF_INLINE void add_word_depths(const ThinProduct<T>& product, int64_t k, int64_t column, int64_t columns,
                                float* sums) {
  const int64_t stride = product.b_depth_stride;
  const T* b = product.b + k * stride + column;
  __m512bh factors[kRows][kPairs];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int i = 0; i < kPairs; ++i) {
      int word;
      std::memcpy(&word, product.a + r * product.a_row_stride + k / 2 + i, sizeof word);
      factors[r][i] = (__m512bh)_mm512_set1_epi32(word);
    }
  }
  for (int64_t j = 0; j < columns; j += kLanes) {
    Vector<kLanes> sum[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) load<kLanes>(sums + r * kSumsStride + j, sum[r]);
#pragma GCC unroll 4
    for (int i = 0; i < kPairs; ++i) {
      const T* even = b + 2 * i * stride + j;
      const __m512bh words = (__m512bh)load_words(even, kWhole ? even + stride : nullptr, 0xffff);
      __builtin_prefetch(even + 2 * kPairs * stride, 0, 2);
      __builtin_prefetch(even + (2 * kPairs + 1) * stride, 0, 2);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) sum[r] = _mm512_dpbf16_ps(sum[r], factors[r][i], words);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) store<kLanes>(sum[r], sums + r * kSumsStride + j);
  }
}

/// As multiply_along_columns().
template <int kRows, class T>
void multiply_thin_pairs(const ThinProduct<T>& product) {
  constexpr int kPairs = 4;
  sum_along_columns<kLanes, kRows>(
      product, [&](int64_t k, int64_t end, int64_t column, int64_t columns, float* sums)
                   __attribute__((always_inline)) {
                     for (; k + 2 * kPairs <= end; k += 2 * kPairs)
                       add_word_depths<kRows, kPairs, true>(product, k, column, columns, sums);
                     for (; k + 2 <= end; k += 2)
                       add_word_depths<kRows, 1, true>(product, k, column, columns, sums);
                     if (k < end) add_word_depths<kRows, 1, false>(product, k, column, columns, sums);
                   });
}

template <size_t... kRows>
constexpr void fill_thin_pairs(PairKernels& kernels, std::index_sequence<kRows...>) {
  ((kernels.thin[kRows] = multiply_thin_pairs<kRows + 1, float>), ...);
  ((kernels.thin_bf16[kRows] = multiply_thin_pairs<kRows + 1, BFloat16>), ...);
}

template <int kVectors, bool kPacked, size_t... kRows>
constexpr void fill_pairs(GemmKernels::Multiply* by_rows, std::index_sequence<kRows...>) {
  ((by_rows[kRows] = multiply_pairs<kRows + 1, kVectors, kPacked>), ...);
}

constexpr PairKernels make_pair_kernels() {
  PairKernels kernels{kRowsOfTile,
                      {},
                      {},
                      nullptr,
                      pack_words<float>,
                      pack_words<BFloat16>,
                      pack_rows<float>,
                      pack_rows<BFloat16>,
                      pack_word_panels<float>,
                      pack_word_panels<BFloat16>,
                      pack_word_columns<float>,
                      pack_word_columns<BFloat16>,
                      {},
                      {}};
  const auto rows = std::make_index_sequence<kRowsOfTile>();
  fill_pairs<1, true>(kernels.packed[0], rows);
  fill_pairs<2, true>(kernels.packed[1], rows);
  fill_pairs<1, false>(kernels.by_rows[0], rows);
  fill_pairs<2, false>(kernels.by_rows[1], rows);
  fill_thin_pairs(kernels, std::make_index_sequence<kMostThinRows>());
  return kernels;
}

}  // namespace

const PairKernels* avx512_pair_kernels() {
  static constexpr PairKernels kKernels = make_pair_kernels();
  return has_avx512_bf16() ? &kKernels : nullptr;
}

}  // namespace mtf

#else

namespace mtf {

const PairKernels* avx512_pair_kernels() { return nullptr; }

}  // namespace mtf

#endif
