// The innermost loops of products of 8-bit codes, one version for each instruction set: tiles of sums that stay in
// registers. int8_gemm.cc drives them. All versions give the same integers, and so the same bits.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/base/instruction_set.h"

namespace mtf {

/// Columns of a panel of B, which is [depth / kInt8Depths][kInt8Columns][kInt8Depths] in memory.
inline constexpr int64_t kInt8Columns = 16, kInt8Depths = 4;

/// Where the sums of a tile go: to `sums`, or to `values` as (float(sum) * row scale) * column scale.
struct Int8Output {
  int32_t* sums = nullptr;
  float* values = nullptr;
  int64_t row_stride = 0;
  const float *row_scales = nullptr, *column_scales = nullptr;
};

/// Rows of A times neighbouring panels of B, whose codes are the signed ones + 128.
struct Int8Tile {
  int64_t depth = 0;  ///< in groups of kInt8Depths
  const int8_t* a = nullptr;
  int64_t a_row_stride = 0;
  const uint8_t* b = nullptr;
  int64_t b_panel_stride = 0;
  const int32_t* begin = nullptr;  ///< what the sums of each row begin with
  Int8Output output;
};

struct Int8Kernels {
  static constexpr int kMostRows = 32, kMostPanels = 8;
  using Multiply = void (*)(const Int8Tile&);

  std::string_view name;
  int rows;  ///< the most rows of a tile
  /// The most panels of a tile, a power of two, and kernels by the logarithm of its panels; by its rows - 1.
  std::array<int, kMostRows> panels;
  std::array<std::array<Multiply, 4>, kMostRows> multiply;
  /// Called by a thread that has multiplied tiles, if set.
  void (*release)() = nullptr;
};

/// The fastest kernels for an instruction set, which must be available, on this machine.
const Int8Kernels& int8_kernels(InstructionSet set);
/// All kernels that this machine can run.
std::vector<const Int8Kernels*> available_int8_kernels();

/// Those of AVX-512 VNNI for few rows, and AMX for more. Null if the compiler does not build them; the machine must have AMX.
const Int8Kernels* amx_int8_kernels();
/// Null if the compiler does not build them.
const Int8Kernels* avx512_vnni_int8_kernels();
const Int8Kernels* avx_vnni_int8_kernels();
const Int8Kernels* avx2_int8_kernels();
const Int8Kernels* portable_int8_kernels();

}  // namespace mtf
