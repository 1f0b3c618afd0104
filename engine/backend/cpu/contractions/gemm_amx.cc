// Kernels of products in bfloat16 for AMX-BF16, with tiles of up to 32 x 32: four registers of 16 x 16 sums. The instructions are
// written as assembly with all that they read and write; the compiler's own intrinsics do not say that they use memory.
#include "engine/backend/cpu/contractions/gemm_kernels.h"

#if MTF_HAS_INSTRUCTION_SETS

#include <immintrin.h>

#include <cstdint>
#include <cstring>
#include <utility>

#include "engine/backend/cpu/contractions/kernels_of_element.h"
#include "engine/backend/element.h"
#include "engine/base/dispatch.h"

#pragma GCC target("arch=x86-64-v4,avx512bf16")

#include "engine/backend/cpu/contractions/gemm_thin.h"
#include "engine/backend/cpu/contractions/gemm_tiles.h"

namespace mtf {
namespace {

constexpr int kLanes = 16;
/// A register of AMX has so many rows of kLanes words.
constexpr int kRegisterRows = 16;
/// The depths of a register: a word has two of them.
constexpr int64_t kGroupDepth = 2 * kRegisterRows;
/// Bytes of a row of a register.
constexpr int64_t kRowBytes = kLanes * sizeof(float);

/// The operand of LDTILECFG: the shapes of the registers.
struct alignas(64) Shapes {
  uint8_t palette = 1, first_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(Shapes) == 64);

/// Registers: sums of the upper and lower rows by both vectors of columns, the rows of A, and the columns of B.
constexpr int kSums = 0, kA = 4, kB = 6;

template <int kTo>
MTF_INLINE void load_register(const float* from, int64_t row_bytes) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(row_bytes), "i"(kTo) : "memory");
}
template <int kFrom>
MTF_INLINE void store_register(float* to, int64_t row_bytes) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(row_bytes), "i"(kFrom) : "memory");
}
template <int kTo>
MTF_INLINE void clear_register() {
  asm volatile("tilezero %%tmm%c0" ::"i"(kTo));
}
/// Adds the products of the words of A and B to the sums.
template <int kTo, int kFirst, int kSecond>
MTF_INLINE void add_register_products() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kTo), "i"(kFirst), "i"(kSecond));
}

/// The rows for which this thread's registers have shapes; 0: they have none.
thread_local int rows_of_shapes = 0;

void set_shapes(int rows) {
  if (rows_of_shapes == rows) return;
  Shapes shapes;
  const auto set = [&](int number, int its_rows) {
    if (its_rows <= 0) return;
    shapes.rows[number] = static_cast<uint8_t>(its_rows);
    shapes.row_bytes[number] = kRowBytes;
  };
  const int upper = rows < kRegisterRows ? rows : kRegisterRows, lower = rows - upper;
  for (int v = 0; v < 2; ++v) {
    set(kSums + v, upper);
    set(kSums + 2 + v, lower);
    set(kB + v, kRegisterRows);
  }
  set(kA, upper);
  set(kA + 1, lower);
  asm volatile("ldtilecfg %0" ::"m"(shapes) : "memory");
  rows_of_shapes = rows;
}

/// Gives up the contents of the registers, which the system then need not save.
void release_registers() {
  if (rows_of_shapes == 0) return;
  asm volatile("tilerelease" ::: "memory");
  rows_of_shapes = 0;
}

/// Adds the products of a group of depths to the sums. The rows of a and b are so many bytes apart.
template <bool kLower, int kVectors>
MTF_INLINE void add_group(const float* a, int64_t a_bytes, const float* b, int64_t b_bytes) {
  load_register<kA>(a, a_bytes);
  load_register<kB>(b, b_bytes);
  add_register_products<kSums, kA, kB>();
  if constexpr (kVectors == 2) {
    load_register<kB + 1>(b + kLanes, b_bytes);
    add_register_products<kSums + 1, kA, kB + 1>();
  }
  if constexpr (kLower) {
    load_register<kA + 1>(a + kRegisterRows * a_bytes / static_cast<int64_t>(sizeof(float)), a_bytes);
    add_register_products<kSums + 2, kA + 1, kB>();
    if constexpr (kVectors == 2) add_register_products<kSums + 3, kA + 1, kB + 1>();
  }
}

/// The same for the last words of a block, fewer than a register has, with zeros behind them.
template <bool kLower, int kVectors>
void add_rest(const Tile& tile, const float* a, const float* b, int64_t words, int rows) {
  alignas(64) float rows_of_a[kMaximalPairRows * kLanes] = {},
                                                 rows_of_b[kRegisterRows * kVectors * kLanes] = {};
  for (int r = 0; r < rows; ++r)
    std::memcpy(rows_of_a + r * kLanes, a + r * tile.a_row_stride, words * sizeof(float));
  for (int64_t k = 0; k < words; ++k) {
    std::memcpy(rows_of_b + k * kVectors * kLanes, b + k * tile.b_depth_stride,
                kVectors * kLanes * sizeof(float));
  }
  add_group<kLower, kVectors>(rows_of_a, kRowBytes, rows_of_b, kVectors * kRowBytes);
}

template <bool kLower, int kVectors>
MTF_INLINE void store_sums(float* to, int64_t row_bytes) {
  float* const lower = to + kRegisterRows * row_bytes / static_cast<int64_t>(sizeof(float));
  store_register<kSums>(to, row_bytes);
  if constexpr (kVectors == 2) store_register<kSums + 1>(to + kLanes, row_bytes);
  if constexpr (kLower) store_register<kSums + 2>(lower, row_bytes);
  if constexpr (kLower && kVectors == 2) store_register<kSums + 3>(lower + kLanes, row_bytes);
}

/// Multiplies a tile; with `kLower` it has more rows than a register.
template <bool kLower, int kVectors>
void multiply_registers(const Tile& tile, int rows) {
  constexpr int kColumns = kVectors * kLanes;
  set_shapes(rows);
  clear_register<kSums>();
  if constexpr (kVectors == 2) clear_register<kSums + 1>();
  if constexpr (kLower) clear_register<kSums + 2>();
  if constexpr (kLower && kVectors == 2) clear_register<kSums + 3>();
  const auto bytes = [](int64_t elements) { return elements * static_cast<int64_t>(sizeof(float)); };
  const float *a = tile.a, *b = tile.b;
  int64_t words = tile.depth;
  for (; words >= kRegisterRows; words -= kRegisterRows) {
    add_group<kLower, kVectors>(a, bytes(tile.a_row_stride), b, bytes(tile.b_depth_stride));
    a += kRegisterRows;
    b += kRegisterRows * tile.b_depth_stride;
  }
  if (words > 0) add_rest<kLower, kVectors>(tile, a, b, words, rows);
  if (!tile.add && !tile.c_rows && tile.columns == kColumns) {
    store_sums<kLower, kVectors>(tile.c, bytes(tile.c_row_stride));
    return;
  }
  alignas(64) float sums[kMaximalPairRows * kColumns];
  store_sums<kLower, kVectors>(sums, kVectors * kRowBytes);
  for (int r = 0; r < rows; ++r) {
    float* const c = tile.row(r);
    for (int v = 0; v < kVectors; ++v) {
      const int64_t columns = tile.columns - v * kLanes;
      const auto lanes = static_cast<__mmask16>(columns >= kLanes ? 0xffff : (1 << columns) - 1);
      __m512 sum = _mm512_load_ps(sums + r * kColumns + v * kLanes);
      if (tile.add) sum = _mm512_maskz_loadu_ps(lanes, c + v * kLanes) + sum;
      _mm512_mask_storeu_ps(c + v * kLanes, lanes, sum);
    }
  }
}

template <int kVectors, int kRows>
void multiply_tile(const Tile& tile) {
  multiply_registers<(kRows > kRegisterRows), kVectors>(tile, kRows);
}

/// The kernels of AVX512-BF16, which pack for these.
const PairKernels& packing() { return *avx512_pair_kernels(); }

/// Packs up to kLanes rows whose depths are not neighbours: as [pair][row] first, then squares are transposed.
template <class T>
void pack_transposed(const Strip<T>& strip, float* to, int64_t to_stride) {
  constexpr int64_t kSquares = 8, kDepths = kSquares * kGroupDepth;
  alignas(64) float words[kSquares * kRegisterRows * kLanes] = {};
  for (int64_t k = 0; k < strip.depth; k += kDepths) {
    Strip<T> part = strip;
    part.depth = strip.depth - k < kDepths ? strip.depth - k : kDepths;
    if (strip.places) {
      part.places += k;
    } else {
      part.data += k * strip.depth_stride;
    }
    pack_of<T>(packing())(part, words, kLanes);
    for (int64_t first = 0; first < part.depth; first += kGroupDepth) {
      Vector<kLanes> rows[kLanes];
      const float* const square = words + first / 2 * kLanes;
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) load<kLanes>(square + i * kLanes, rows[i]);
      transpose<kLanes>(rows);
      const int64_t pairs = (part.depth - first + 1) / 2;
      const auto lanes = static_cast<__mmask16>(pairs >= kLanes ? 0xffff : (1 << pairs) - 1);
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
  for (int64_t first = 0; first < strip.width; first += kLanes) {
    Strip<T> part = strip;
    part.width = strip.width - first < kLanes ? strip.width - first : kLanes;
    if (strip.offsets) {
      part.offsets += first;
    } else {
      part.data += first * strip.stride;
    }
    pack_transposed(part, to + first * to_stride, to_stride);
  }
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
  asm("" : "+v"(both));  // the compiler may change the order of additions that it sees
  return sum + both;
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

/// Adds the sums of a group, which become zero.
MTF_INLINE void finish_group(GroupSums& group, int64_t columns, float* sums) {
  for (int64_t j = 0; j < columns; j += kLanes) {
    _mm512_storeu_ps(sums + j, add_parts(_mm512_loadu_ps(sums + j), _mm512_loadu_ps(group.even + j),
                                         _mm512_loadu_ps(group.odd + j)));
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
                       const int64_t end = block_end - k < kGroupDepth ? block_end : k + kGroupDepth;
                       for (; k + 2 * kPairs <= end; k += 2 * kPairs)
                         add_to_group<kRows, kPairs, true>(product, k, column, columns, group);
                       for (; k + 2 <= end; k += 2)
                         add_to_group<kRows, 1, true>(product, k, column, columns, group);
                       if (k < end) add_to_group<kRows, 1, false>(product, k, column, columns, group);
                       k = end;
                       for (int r = 0; r < kRows; ++r)
                         finish_group(group[r], columns, sums + r * kSumsStride);
                     }
                   });
}

template <class T>
void add_groups(const Products<T>& products, float* sums) {
  for (int64_t j = 0; j < products.size; j += kLanes) {
    const auto lanes =
        static_cast<__mmask16>(products.size - j >= kLanes ? 0xffff : (1 << (products.size - j)) - 1);
    __m512 sum = _mm512_maskz_loadu_ps(lanes, sums + j);
    for (int64_t k = 0; k < products.depth; k += kGroupDepth) {
      const int64_t end = products.depth - k < kGroupDepth ? products.depth : k + kGroupDepth;
      __m512 parts[2] = {};
      for (int64_t i = k; i < end; ++i) {
        __m512& part = parts[(i - k) % 2];
        part = _mm512_fmadd_ps(factors_at(products.a_at(i) + j, lanes),
                               factors_at(products.b_at(i) + j, lanes), part);
      }
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
  PairKernels kernels = packing();
  kernels.tile_rows = kMaximalPairRows;
  kernels.reads_by_rows = true;
  kernels.release = release_registers;
  kernels.pack_rows = pack_rows<float>;
  kernels.pack_rows_bf16 = pack_rows<BFloat16>;
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
