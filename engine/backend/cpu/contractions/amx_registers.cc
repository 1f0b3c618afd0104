#include "engine/backend/cpu/contractions/amx_registers.h"

#include <algorithm>

namespace mtf::amx {
namespace {

#if MTF_HAS_INSTRUCTION_SETS

/// The operand of LDTILECFG.
struct alignas(64) Shapes {
  uint8_t palette = 1, first_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  void set(int number, int its_rows) {
    if (its_rows <= 0) return;  // such a register has no shape
    rows[number] = static_cast<uint8_t>(its_rows);
    row_bytes[number] = kRowBytes;
  }
};
static_assert(sizeof(Shapes) == 64);

/// The rows of tiles for which this thread's registers have shapes; 0: they have none.
thread_local int rows_of_shapes = 0;

#endif

}  // namespace

void set_shapes([[maybe_unused]] int rows) {
#if MTF_HAS_INSTRUCTION_SETS
  if (rows_of_shapes == rows) return;
  Shapes shapes;
  const int upper = std::min(rows, kRows), lower = rows - upper;
  for (int v = 0; v < 2; ++v) {
    shapes.set(kSums + v, upper);
    shapes.set(kSums + 2 + v, lower);
    shapes.set(kB + v, kRows);
  }
  shapes.set(kA, upper);
  shapes.set(kA + 1, lower);
  asm volatile("ldtilecfg %0" ::"m"(shapes) : "memory");
  rows_of_shapes = rows;
#endif
}

void release_registers() {
#if MTF_HAS_INSTRUCTION_SETS
  if (rows_of_shapes == 0) return;
  asm volatile("tilerelease" ::: "memory");
  rows_of_shapes = 0;
#endif
}

}  // namespace mtf::amx
