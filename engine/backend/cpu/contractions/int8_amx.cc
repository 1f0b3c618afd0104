// Products of 8-bit codes by AMX-INT8, with tiles of up to 32 x 32.
#include "engine/backend/cpu/contractions/int8_kernels.h"

#if MTF_HAS_INSTRUCTION_SETS

#include <array>
#include <cstdint>
#include <utility>

#include "engine/backend/cpu/contractions/amx_registers.h"
#include "engine/base/dispatch.h"

#pragma GCC target("arch=x86-64-v4")

#include "engine/backend/cpu/contractions/int8_tiles.h"

namespace mtf {
namespace {

constexpr int kLanes = 16;
/// Products of fewer rows wait for the codes of B, and take as long with vectors.
constexpr int kFewestRows = 9;
static_assert(kInt8Columns == amx::kWords && kInt8Depths == amx::kWordBytes &&
              Int8Kernels::kMostRows == amx::kMostTileRows);

template <int kRows, int kPanels>
void multiply_int8_registers(const Int8Tile& tile) {
  using Registers = amx::RegisterTile<amx::FourBytes, (kRows > amx::kRows), kPanels>;
  amx::set_shapes(kRows);
  Registers::clear();
  amx::Rows a{tile.a, tile.a_row_stride}, b{tile.b, amx::kRowBytes},
      second_b{tile.b + tile.b_panel_stride, amx::kRowBytes};
  int64_t groups = tile.depth;
  for (; groups >= amx::kWords; groups -= amx::kWords) {
    Registers::add_products(a, b, second_b);
    a.data = static_cast<const int8_t*>(a.data) + amx::kWords * kInt8Depths;
    b.data = b.row(amx::kRows);
    second_b.data = second_b.row(amx::kRows);
  }
  if (groups > 0) Registers::add_rest(a, b, second_b, groups, kRows);
  alignas(64) int32_t sums[kRows][kPanels * kLanes];
  Registers::store(sums, sizeof sums[0]);
  for (int r = 0; r < kRows; ++r) {
    for (int p = 0; p < kPanels; ++p) {
      put<kLanes>(loaded<Int32s<kLanes>>(sums[r] + p * kLanes) + tile.begin[r], tile.output, r,
                  p * kInt8Columns);
    }
  }
}

Int8Kernels make_amx_kernels() {
  Int8Kernels kernels = *avx512_vnni_int8_kernels();
  kernels.name = "AMX";
  kernels.rows = Int8Kernels::kMostRows;
  kernels.release = amx::release_registers;
  [&]<int... kMore>(std::integer_sequence<int, kMore...>) {
    ((kernels.panels[kFewestRows - 1 + kMore] = 2,
      kernels.multiply[kFewestRows - 1 + kMore] = {multiply_int8_registers<kFewestRows + kMore, 1>,
                                                   multiply_int8_registers<kFewestRows + kMore, 2>}),
     ...);
  }
  (std::make_integer_sequence<int, Int8Kernels::kMostRows - kFewestRows + 1>());
  return kernels;
}

}  // namespace

const Int8Kernels* amx_int8_kernels() {
  static const Int8Kernels kernels = make_amx_kernels();
  return &kernels;
}

}  // namespace mtf

#else

namespace mtf {

const Int8Kernels* amx_int8_kernels() { return nullptr; }

}  // namespace mtf

#endif
