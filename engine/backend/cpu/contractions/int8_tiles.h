// Tiles of products of 8-bit codes for vectors of any width, after Set: the instruction set's version of the sum of four
// products. As in gemm_tiles.h, the unnamed namespace keeps instruction sets apart.
//
//   struct Set {
//     static constexpr int kLanes = 8;            // int32 lanes of a vector
//     using Weights, Factors = ...;               // four codes of each column, and of one row, as add() wants them
//     static Weights weights(const uint8_t* b);
//     static Factors factors(const int8_t* a);
//     static Sums add(Sums sums, const Weights&, const Factors&);
//   };
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include "engine/backend/cpu/contractions/int8_kernels.h"
#include "engine/base/dispatch.h"

namespace mtf {
namespace {

template <class T, int kLanes>
struct VectorOf {
  typedef T Type __attribute__((vector_size(kLanes * sizeof(T))));
};
template <int kLanes>
using Int32s = typename VectorOf<int32_t, kLanes>::Type;
template <int kLanes>
using Floats = typename VectorOf<float, kLanes>::Type;

template <class Vector>
MTF_INLINE Vector loaded(const void* from) {
  Vector vector;
  std::memcpy(&vector, from, sizeof vector);
  return vector;
}

MTF_INLINE int32_t four_codes(const int8_t* a) {
  int32_t four;
  std::memcpy(&four, a, sizeof four);
  return four;
}

/// For instruction sets that cannot multiply bytes without saturation: bytes are widened to 16 bits, those of even and of odd
/// depths apart. Pairs::multiply_add() multiplies 16-bit integers and adds neighbours.
template <class Pairs>
struct WidenedBytes {
  static constexpr int kLanes = Pairs::kLanes;
  using Int16s = typename VectorOf<int16_t, 2 * kLanes>::Type;
  struct Weights {
    Int16s even, odd;
  };
  using Factors = Weights;
  MTF_INLINE Weights weights(const uint8_t* b) {
    const auto bytes = loaded<typename VectorOf<uint16_t, 2 * kLanes>::Type>(b);
    return {(Int16s)(bytes & 0xff), (Int16s)(bytes >> 8)};
  }
  MTF_INLINE Factors factors(const int8_t* a) {
    const auto bytes = (Int16s)(Int32s<kLanes>{} + four_codes(a));
    return {bytes << 8 >> 8, bytes >> 8};
  }
  MTF_INLINE Int32s<kLanes> add(const Int32s<kLanes>& sums, const Weights& weights, const Factors& factors) {
    return sums + Pairs::multiply_add(weights.even, factors.even) +
           Pairs::multiply_add(weights.odd, factors.odd);
  }
};

template <int kLanes>
MTF_INLINE void put(const Int32s<kLanes>& sums, const Int8Output& to, int64_t row, int64_t column) {
  const int64_t at = row * to.row_stride + column;
  if (to.values == nullptr) {
    std::memcpy(to.sums + at, &sums, sizeof sums);
    return;
  }
  const auto scales = loaded<Floats<kLanes>>(to.column_scales + column);
  Floats<kLanes> scaled = __builtin_convertvector(sums, Floats<kLanes>) * to.row_scales[row];
  MTF_KEEP_ROUNDED(scaled);
  const Floats<kLanes> values = scaled * scales;
  std::memcpy(to.values + at, &values, sizeof values);
}

template <class Set, int kRows, int kPanels>
void multiply_int8(const Int8Tile& tile) {
  constexpr int kLanes = Set::kLanes, kVectors = static_cast<int>(kInt8Columns) / kLanes;
  Int32s<kLanes> sums[kRows][kPanels][kVectors];
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int p = 0; p < kPanels; ++p) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[r][p][v] = Int32s<kLanes>{} + tile.begin[r];
    }
  }
  const int8_t* a = tile.a;
  const uint8_t* b = tile.b;
  for (int64_t k = 0; k < tile.depth; ++k, a += kInt8Depths, b += kInt8Columns * kInt8Depths) {
    typename Set::Weights weights[kPanels][kVectors];
#pragma GCC unroll 8
    for (int p = 0; p < kPanels; ++p) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v)
        weights[p][v] = Set::weights(b + p * tile.b_panel_stride + v * kLanes * kInt8Depths);
    }
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const typename Set::Factors factors = Set::factors(a + r * tile.a_row_stride);
#pragma GCC unroll 8
      for (int p = 0; p < kPanels; ++p) {
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sums[r][p][v] = Set::add(sums[r][p][v], weights[p][v], factors);
      }
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int p = 0; p < kPanels; ++p) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v)
        put<kLanes>(sums[r][p][v], tile.output, r, p * kInt8Columns + v * kLanes);
    }
  }
}

/// The largest power of two with which a tile of so many rows has at most kSums vectors of sums.
constexpr int most_panels(int rows, int vectors, int sums) {
  int panels = 1;
  while (2 * panels <= Int8Kernels::kMostPanels && rows * 2 * panels * vectors <= sums) panels *= 2;
  return panels;
}

/// Kernels whose tiles have at most kMostRows rows and kSums vectors of sums.
template <class Set, int kMostRows, int kSums>
constexpr Int8Kernels make_int8_kernels(std::string_view name) {
  Int8Kernels kernels{name, kMostRows, {}, {}, nullptr};
  constexpr int kVectors = static_cast<int>(kInt8Columns) / Set::kLanes;
  const auto add_rows = [&]<int kRow>(std::integral_constant<int, kRow>) {
    constexpr int kRows = kRow + 1, kPanels = most_panels(kRows, kVectors, kSums);
    kernels.panels[kRow] = kPanels;
    kernels.multiply[kRow][0] = multiply_int8<Set, kRows, 1>;
    if constexpr (kPanels >= 2) kernels.multiply[kRow][1] = multiply_int8<Set, kRows, 2>;
    if constexpr (kPanels >= 4) kernels.multiply[kRow][2] = multiply_int8<Set, kRows, 4>;
    if constexpr (kPanels >= 8) kernels.multiply[kRow][3] = multiply_int8<Set, kRows, 8>;
  };
  [&]<int... kRow>(std::integer_sequence<int, kRow...>) {
    (add_rows(std::integral_constant<int, kRow>()), ...);
  }
  (std::make_integer_sequence<int, kMostRows>());
  return kernels;
}

}  // namespace
}  // namespace mtf
