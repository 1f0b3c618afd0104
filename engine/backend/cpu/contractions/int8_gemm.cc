// The loops around the tiles of int8_kernels.h. A signed code of A is multiplied with a code of B + 128, as the instructions
// want it: 128 times the sum of each row is subtracted first. Columns that stand in no panels are copied into one.
#include "engine/backend/cpu/contractions/int8_gemm.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "engine/base/dispatch.h"
#include "engine/base/integer_division.h"

namespace mtf {
namespace {

constexpr int64_t kAlignment = 64;

MTF_INLINE void begin_sums(const int8_t* a, int64_t rows, int64_t stride, int32_t* begin) {
  for (int64_t i = 0; i < rows; ++i) {
    int32_t sum = 0;
    for (int64_t k = 0; k < stride; ++k) sum += a[i * stride + k];
    begin[i] = -128 * sum;
  }
}

/// Parts of the scratch memory.
struct Scratch {
  int32_t* begin;  ///< what the sums of each row begin with
  int8_t* a;       ///< rows whose depth is a multiple of kInt8Depths
  uint8_t* panel;  ///< one panel of B
};

/// The bytes of the parts.
struct ScratchBytes {
  int64_t begin, a = 0, panel = 0;

  ScratchBytes(int64_t rows, int64_t depth, bool in_panels)
      : begin(round_up(rows * static_cast<int64_t>(sizeof(int32_t)), kAlignment)) {
    if (in_panels) return;
    a = round_up(rows * round_up(depth, kInt8Depths), kAlignment);
    panel = round_up(depth, kInt8Depths) * kInt8Columns;
  }
  int64_t total() const { return begin + a + panel; }
  Scratch at(std::byte* memory) const {
    return {reinterpret_cast<int32_t*>(memory), reinterpret_cast<int8_t*>(memory + begin),
            reinterpret_cast<uint8_t*>(memory + begin + a)};
  }
};

/// Rows cut into tiles of nearly the same size.
class RowTiles {
 public:
  RowTiles(int64_t rows, int64_t most) : rows_(rows), count_((rows + most - 1) / most) {}
  int64_t count() const { return count_; }
  int64_t begin(int64_t tile) const { return tile * (rows_ / count_) + std::min(tile, rows_ % count_); }
  int64_t rows(int64_t tile) const { return begin(tile + 1) - begin(tile); }

 private:
  int64_t rows_, count_;
};

Int8Output moved(Int8Output output, int64_t row, int64_t column) {
  const int64_t at = row * output.row_stride + column;
  if (output.values == nullptr) return {output.sums + at, nullptr, output.row_stride};
  return {nullptr, output.values + at, output.row_stride, output.row_scales + row,
          output.column_scales + column};
}

void multiply_panels(const Int8Matrices& product, const Scratch& scratch, const Int8Kernels& kernels) {
  const RowTiles tiles(product.rows, kernels.rows);
  const int64_t panels = product.columns / kInt8Columns;
  for (int64_t panel = 0, count = kernels.panels[static_cast<size_t>(tiles.rows(0) - 1)]; panel < panels;
       panel += count) {
    while (count > panels - panel) count /= 2;
    const auto logarithm = static_cast<size_t>(std::countr_zero(static_cast<uint64_t>(count)));
    for (int64_t tile = 0; tile < tiles.count(); ++tile) {
      const int64_t row = tiles.begin(tile), rows = tiles.rows(tile);
      kernels.multiply[static_cast<size_t>(rows - 1)][logarithm](
          {.depth = product.depth / kInt8Depths,
           .a = product.a + row * product.depth,
           .a_row_stride = product.depth,
           .b = product.b + panel * kInt8Columns * product.depth,
           .b_panel_stride = kInt8Columns * product.depth,
           .begin = scratch.begin + row,
           .output = moved(product.output, row, panel * kInt8Columns)});
    }
  }
}

/// Copies up to kInt8Columns columns into a panel. What it has in addition is not defined: A has zeros there, and those
/// columns are not stored.
void pack_panel(const Int8Matrices& product, int64_t column, int64_t columns, uint8_t* panel) {
  for (int64_t k = 0; k < product.depth; ++k) {
    uint8_t* to = panel + k / kInt8Depths * kInt8Depths * kInt8Columns + k % kInt8Depths;
    for (int64_t j = 0; j < columns; ++j) to[j * kInt8Depths] = product.b[(column + j) * product.depth + k];
  }
}

/// Multiplies one panel of `columns` columns, fewer than it could have.
void multiply_partly(const Int8Matrices& panel, const Scratch& scratch, const Int8Kernels& kernels,
                     int64_t columns) {
  int32_t sums[kInt8Columns];
  float values[kInt8Columns], scales[kInt8Columns] = {};
  const Int8Output& to = panel.output;
  if (to.values != nullptr) std::copy_n(to.column_scales, columns, scales);
  for (int64_t row = 0; row < panel.rows; ++row) {
    Int8Output output{sums, nullptr, kInt8Columns};
    if (to.values != nullptr) output = {nullptr, values, kInt8Columns, to.row_scales + row, scales};
    kernels.multiply[0][0]({.depth = panel.depth / kInt8Depths,
                            .a = panel.a + row * panel.depth,
                            .a_row_stride = panel.depth,
                            .b = panel.b,
                            .b_panel_stride = 0,
                            .begin = scratch.begin + row,
                            .output = output});
    if (to.values != nullptr) {
      std::copy_n(values, columns, to.values + row * to.row_stride);
    } else {
      std::copy_n(sums, columns, to.sums + row * to.row_stride);
    }
  }
}

/// Returns the product with rows of a whole number of groups of depths, and B in `scratch`.
Int8Matrices padded(const Int8Matrices& product, const Scratch& scratch) {
  Int8Matrices result = product;
  result.depth = round_up(product.depth, kInt8Depths);
  for (int64_t i = 0; i < product.rows; ++i) {
    int8_t* row = scratch.a + i * result.depth;
    std::memcpy(row, product.a + i * product.depth, static_cast<size_t>(product.depth));
    std::memset(row + product.depth, 0, static_cast<size_t>(result.depth - product.depth));
  }
  result.a = scratch.a;
  result.b = scratch.panel;
  return result;
}

void multiply_matrices(const Int8Matrices& product, std::byte* memory, const Int8Kernels& kernels) {
  const Scratch scratch = ScratchBytes(product.rows, product.depth, product.in_panels).at(memory);
  if (product.in_panels) {
    dispatched<begin_sums>(product.a, product.rows, product.depth, scratch.begin);
    return multiply_panels(product, scratch, kernels);
  }
  const Int8Matrices whole = padded(product, scratch);
  dispatched<begin_sums>(whole.a, whole.rows, whole.depth, scratch.begin);
  for (int64_t column = 0; column < product.columns; column += kInt8Columns) {
    const int64_t columns = std::min(kInt8Columns, product.columns - column);
    pack_panel(product, column, columns, scratch.panel);
    Int8Matrices panel = whole;
    panel.columns = kInt8Columns;
    panel.output = moved(product.output, 0, column);
    if (columns == kInt8Columns) {
      multiply_panels(panel, scratch, kernels);
    } else {
      multiply_partly(panel, scratch, kernels, columns);
    }
  }
}

}  // namespace

void multiply(const Int8Matrices& product, std::byte* memory, const Int8Kernels& kernels) {
  if (product.rows == 0) return;
  multiply_matrices(product, memory, kernels);
  if (kernels.release) kernels.release();
}

size_t int8_scratch_bytes(int64_t rows, int64_t depth, bool in_panels) {
  return static_cast<size_t>(ScratchBytes(rows, depth, in_panels).total());
}

const Int8Kernels& int8_kernels([[maybe_unused]] InstructionSet set) {
#if MTF_HAS_INSTRUCTION_SETS
  static const bool has_avx512_vnni = __builtin_cpu_supports("avx512vnni"),
                    has_avx_vnni = __builtin_cpu_supports("avxvnni"),
                    has_amx = is_available(InstructionSet::kAmx);
  if (set == InstructionSet::kAmx || (set == InstructionSet::kAvx512 && has_amx)) return *amx_int8_kernels();
  if (set == InstructionSet::kAvx512 && has_avx512_vnni) return *avx512_vnni_int8_kernels();
  if (set != InstructionSet::kPortable) return has_avx_vnni ? *avx_vnni_int8_kernels() : *avx2_int8_kernels();
#endif
  return *portable_int8_kernels();
}

std::vector<const Int8Kernels*> available_int8_kernels() {
  std::vector<const Int8Kernels*> kernels;
  for (const InstructionSet set : available_instruction_sets()) kernels.push_back(&int8_kernels(set));
  // Those in whose place the machine has better ones.
  if (is_available(InstructionSet::kAmx)) kernels.push_back(avx512_vnni_int8_kernels());
  if (is_available(InstructionSet::kAvx2)) kernels.push_back(avx2_int8_kernels());
  return kernels;
}

}  // namespace mtf
