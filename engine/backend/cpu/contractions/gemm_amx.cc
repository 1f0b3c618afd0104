// Kernels of products in bfloat16 for AMX-BF16, with tiles of up to 32 x 32.
#include "engine/backend/cpu/contractions/gemm_kernels.h"

#if MTF_HAS_INSTRUCTION_SETS

#include <immintrin.h>

#include <cstdint>
#include <cstring>
#include <utility>

#include "engine/backend/cpu/contractions/amx_registers.h"
#include "engine/backend/cpu/contractions/kernels_of_element.h"
#include "engine/backend/element.h"
#include "engine/base/dispatch.h"

#pragma GCC target("arch=x86-64-v4,avx512bf16")

#include "engine/backend/cpu/contractions/avx512_lanes.h"
#include "engine/backend/cpu/contractions/gemm_thin.h"
#include "engine/backend/cpu/contractions/gemm_tiles.h"

namespace mtf {
namespace {

/// The depths of a register: a word has two of them.
constexpr int64_t kGroupDepth = 2 * amx::kWords;
static_assert(kLanes == amx::kWords && kMaximalPairRows == amx::kMostTileRows);

template <int kVectors, int kRows>
void multiply_tile(const Tile& tile) {
  using Registers = amx::RegisterTile<amx::BFloat16Pairs, (kRows > amx::kRows), kVectors>;
  constexpr int kColumns = kVectors * kLanes;
  const auto rows_at = [](const float* data, int64_t stride) {
    return amx::Rows{data, stride * amx::kWordBytes};
  };
  amx::set_shapes(kRows);
  Registers::clear();
  amx::Rows a = rows_at(tile.a, tile.a_row_stride);
  const float* b = tile.b;
  int64_t words = tile.depth;
  for (; words > 0; words -= amx::kWords) {
    const amx::Rows first = rows_at(b, tile.b_depth_stride),
                    second = rows_at(b + kLanes, tile.b_depth_stride);
    if (words >= amx::kWords) {
      Registers::add_products(a, first, second);
    } else {
      Registers::add_rest(a, first, second, words, kRows);
    }
    a.data = static_cast<const float*>(a.data) + amx::kWords;
    b += amx::kWords * tile.b_depth_stride;
  }
  if (!tile.add && !tile.c_rows && tile.columns == kColumns)
    return Registers::store(tile.c, tile.c_row_stride * amx::kWordBytes);
  alignas(64) float sums[kRows * kColumns];
  Registers::store(sums, kColumns * amx::kWordBytes);
  for (int r = 0; r < kRows; ++r) {
    float* const c = tile.row(r);
    for (int v = 0; v < kVectors; ++v) {
      const __mmask16 lanes = first_lanes(tile.columns - v * kLanes);
      __m512 sum = _mm512_load_ps(sums + r * kColumns + v * kLanes);
      if (tile.add) sum = _mm512_maskz_loadu_ps(lanes, c + v * kLanes) + sum;
      _mm512_mask_storeu_ps(c + v * kLanes, lanes, sum);
    }
  }
}

/// The kernels of AVX512-BF16, which pack for these.
const PairKernels& packing() { return *avx512_pair_kernels(); }

/// Packs up to kLanes rows whose depths are not neighbours: as [pair][row] first, then squares are transposed.
template <class T>
void pack_transposed(const Strip<T>& strip, float* to, int64_t to_stride) {
  constexpr int64_t kSquares = 8, kDepths = kSquares * kGroupDepth;
  alignas(64) float words[kSquares * amx::kRows * kLanes] = {};
  for (int64_t k = 0; k < strip.depth; k += kDepths) {
    const Strip<T> part = strip.depths_from(k, kDepths);
    pack_of<T>(packing())(part, words, kLanes);
    for (int64_t first = 0; first < part.depth; first += kGroupDepth) {
      Vector<kLanes> rows[kLanes];
      const float* const square = words + first / 2 * kLanes;
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) load<kLanes>(square + i * kLanes, rows[i]);
      transpose<kLanes>(rows);
      const int64_t pairs = (part.depth - first + 1) / 2;
      const __mmask16 lanes = first_lanes(pairs);
      float* const square_to = to + (k + first) / 2;
      for (int64_t i = 0; i < strip.width; ++i)
        _mm512_mask_storeu_ps(square_to + i * to_stride, lanes, rows[i]);
    }
  }
}

template <class T>
void pack_rows(const Strip<T>& strip, float* to, int64_t to_stride) {
  if (strip.depth_stride == 1 && !strip.places) {
    pack_rows_of<T>(packing())(strip, to, to_stride);
    return;
  }
  for (int64_t first = 0; first < strip.width; first += kLanes)
    pack_transposed(strip.entries_from(first, kLanes), to + first * to_stride, to_stride);
}

/// The factors of one depth of B, rounded to bfloat16, as float32.
MTF_INLINE __m512 widened(__m256i halves) {
  using Half = VectorOf<kLanes>::Half;
  return (__m512)(__builtin_convertvector((Half)halves, VectorOf<kLanes>::Word) << 16);
}
MTF_INLINE __m512 factors_at(const float* from, __mmask16 lanes) {
  return widened((__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(lanes, from)));
}
MTF_INLINE __m512 factors_at(const BFloat16* from, __mmask16 lanes) {
  return widened(_mm256_maskz_loadu_epi16(lanes, from));
}

/// sum + (even + odd), with these roundings.
MTF_INLINE __m512 add_parts(__m512 sum, __m512 even, __m512 odd) {
  __m512 both = even + odd;
  MTF_KEEP_ROUNDED(both);
  sum = sum + both;
  MTF_KEEP_ROUNDED(sum);
  return sum;
}

/// Adds to the sums of a group what registers add for depths that it lacks: zero times zero, which makes a zero positive.
MTF_INLINE void add_missing_depths(int64_t depths, __m512& even, __m512& odd) {
  __m512 zero = _mm512_setzero_ps();
  MTF_KEEP_ROUNDED(zero);
  if (depths < kGroupDepth - 1) even = _mm512_fmadd_ps(zero, zero, even);
  if (depths < kGroupDepth) odd = _mm512_fmadd_ps(zero, zero, odd);
}

/// Sums of the products of even and of odd depths of a group, for one row.
struct GroupSums {
  float even[kSumsStride], odd[kSumsStride];
};

/// Adds the products at the depths of kPairs words of a from k on, of which the last one has no odd depth if not `kWhole`.
template <int kRows, int kPairs, bool kWhole, class T>
MTF_INLINE void add_to_group(const ThinProduct<T>& product, int64_t k, int64_t column, int64_t columns,
                             GroupSums* group) {
  const int64_t stride = product.b_depth_stride;
  const T* b = product.b + k * stride + column;
  __m512 even_factors[kRows][kPairs], odd_factors[kRows][kPairs];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int i = 0; i < kPairs; ++i) {
      uint32_t word;
      std::memcpy(&word, product.a + r * product.a_row_stride + k / 2 + i, sizeof word);
      even_factors[r][i] = (__m512)_mm512_set1_epi32(static_cast<int>(word << 16));
      odd_factors[r][i] = (__m512)_mm512_set1_epi32(static_cast<int>(word & 0xffff0000u));
    }
  }
  for (int64_t j = 0; j < columns; j += kLanes) {
    __m512 even[kRows], odd[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      even[r] = _mm512_loadu_ps(group[r].even + j);
      odd[r] = _mm512_loadu_ps(group[r].odd + j);
    }
#pragma GCC unroll 4
    for (int i = 0; i < kPairs; ++i) {
      const T* from = b + 2 * i * stride + j;
      const __m512 first = factors_at(from, 0xffff);
      __builtin_prefetch(from + 2 * kPairs * stride, 0, 2);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) even[r] = _mm512_fmadd_ps(even_factors[r][i], first, even[r]);
      if (!kWhole) continue;
      const __m512 second = factors_at(from + stride, 0xffff);
      __builtin_prefetch(from + (2 * kPairs + 1) * stride, 0, 2);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) odd[r] = _mm512_fmadd_ps(odd_factors[r][i], second, odd[r]);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      _mm512_storeu_ps(group[r].even + j, even[r]);
      _mm512_storeu_ps(group[r].odd + j, odd[r]);
    }
  }
}

/// Adds the sums of a group of so many depths, which become zero.
MTF_INLINE void finish_group(GroupSums& group, int64_t depths, int64_t columns, float* sums) {
  for (int64_t j = 0; j < columns; j += kLanes) {
    __m512 even = _mm512_loadu_ps(group.even + j), odd = _mm512_loadu_ps(group.odd + j);
    add_missing_depths(depths, even, odd);
    _mm512_storeu_ps(sums + j, add_parts(_mm512_loadu_ps(sums + j), even, odd));
    _mm512_storeu_ps(group.even + j, _mm512_setzero_ps());
    _mm512_storeu_ps(group.odd + j, _mm512_setzero_ps());
  }
}

/// As multiply_along_columns(). These products wait for memory, not for multiplications.
template <int kRows, class T>
void multiply_thin_groups(const ThinProduct<T>& product) {
  constexpr int kPairs = 4;
  GroupSums group[kRows] = {};
  sum_along_columns<kLanes, kRows>(
      product, [&](int64_t k, int64_t block_end, int64_t column, int64_t columns, float* sums)
                   __attribute__((always_inline)) {
                     while (k < block_end) {
                       const int64_t depths = block_end - k < kGroupDepth ? block_end - k : kGroupDepth;
                       const int64_t end = k + depths;
                       for (; k + 2 * kPairs <= end; k += 2 * kPairs)
                         add_to_group<kRows, kPairs, true>(product, k, column, columns, group);
                       for (; k + 2 <= end; k += 2)
                         add_to_group<kRows, 1, true>(product, k, column, columns, group);
                       if (k < end) add_to_group<kRows, 1, false>(product, k, column, columns, group);
                       k = end;
                       for (int r = 0; r < kRows; ++r)
                         finish_group(group[r], depths, columns, sums + r * kSumsStride);
                     }
                   });
}

template <class T>
void add_groups(const Products<T>& products, float* sums) {
  for (int64_t j = 0; j < products.size; j += kLanes) {
    const __mmask16 lanes = first_lanes(products.size - j);
    __m512 sum = _mm512_maskz_loadu_ps(lanes, sums + j);
    for (int64_t k = 0; k < products.depth; k += kGroupDepth) {
      const int64_t end = products.depth - k < kGroupDepth ? products.depth : k + kGroupDepth;
      __m512 parts[2] = {};
      for (int64_t i = k; i < end; ++i) {
        __m512& part = parts[(i - k) % 2];
        part = _mm512_fmadd_ps(factors_at(products.a_at(i) + j, lanes),
                               factors_at(products.b_at(i) + j, lanes), part);
      }
      add_missing_depths(end - k, parts[0], parts[1]);
      sum = add_parts(sum, parts[0], parts[1]);
    }
    _mm512_mask_storeu_ps(sums + j, lanes, sum);
  }
}

template <int kVectors, size_t... kRows>
constexpr void fill_registers(GemmKernels::Multiply* by_rows, std::index_sequence<kRows...>) {
  ((by_rows[kRows] = multiply_tile<kVectors, kRows + 1>), ...);
}

template <size_t... kRows>
constexpr void fill_thin_groups(PairKernels& kernels, std::index_sequence<kRows...>) {
  ((kernels.thin[kRows] = multiply_thin_groups<kRows + 1, float>), ...);
  ((kernels.thin_bf16[kRows] = multiply_thin_groups<kRows + 1, BFloat16>), ...);
}

PairKernels make_pair_kernels() {
  PairKernels kernels{.tile_rows = kMaximalPairRows,
                      .packed = {},
                      .by_rows = {},
                      .release = amx::release_registers,
                      .pack = packing().pack,
                      .pack_bf16 = packing().pack_bf16,
                      .pack_rows = pack_rows<float>,
                      .pack_rows_bf16 = pack_rows<BFloat16>,
                      .pack_panels = nullptr,
                      .pack_panels_bf16 = nullptr,
                      .pack_columns = packing().pack_columns,
                      .pack_columns_bf16 = packing().pack_columns_bf16,
                      .thin = {},
                      .thin_bf16 = {}};
  const auto rows = std::make_index_sequence<kMaximalPairRows>();
  fill_registers<1>(kernels.by_rows[0], rows);
  fill_registers<2>(kernels.by_rows[1], rows);
  fill_thin_groups(kernels, std::make_index_sequence<kMostThinRows>());
  return kernels;
}

GemmKernels make_gemm_kernels(const PairKernels& pairs) {
  GemmKernels kernels = *avx512_gemm_kernels();
  kernels.pairs = &pairs;
  kernels.add_pairs = add_groups<float>;
  kernels.add_pairs_bf16 = add_groups<BFloat16>;
  return kernels;
}

}  // namespace

const GemmKernels* amx_gemm_kernels() {
  if (!avx512_pair_kernels()) return nullptr;
  static const PairKernels pairs = make_pair_kernels();
  static const GemmKernels kernels = make_gemm_kernels(pairs);
  return &kernels;
}

}  // namespace mtf

#else

namespace mtf {

const GemmKernels* amx_gemm_kernels() { return nullptr; }

}  // namespace mtf

#endif
