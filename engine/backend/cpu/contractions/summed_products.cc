#include <algorithm>
#include <utility>

#include "engine/backend/cpu/contractions/gemm_blocks.h"
#include "engine/backend/cpu/contractions/joint_products.h"
#include "engine/base/check.h"
#include "engine/base/dispatch.h"
#include "engine/base/integer_division.h"
#include "engine/comm/tree_sum.h"

namespace mtf {
namespace {

constexpr int64_t kRowUnit = 28;  ///< tasks have multiples of so many rows, two tiles
/// The elements of B, of all positions, that are packed at a time.
constexpr int64_t kPackedElements = 128 << 10;
/// Rows of B are prefetched this many steps ahead where they are.
constexpr int64_t kPrefetchedRows = 8;

/// Where a tile is written.
struct Target {
  float* c;
  int64_t row_stride;
  const int64_t* rows;  ///< where each row begins, in place of row_stride; may be null
};

/// sum += terms, of which each row has `stride` elements.
MTF_INLINE void add_tile(const Target sum, const float* terms, int64_t stride, int64_t rows,
                         int64_t columns) {
  for (int64_t i = 0; i < rows; ++i, terms += stride) {
    float* row = sum.c + (sum.rows ? sum.rows[i] : i * sum.row_stride);
#pragma GCC ivdep
    for (int64_t j = 0; j < columns; ++j) row[j] += terms[j];
  }
}

/// Adds the products of several positions, each of them a product of its own, in the order of a reduction tree.
class SummedProducts final : public Kernel {
 public:
  SummedProducts(JointOperands operands, const std::vector<int64_t>& group)
      : operands_(std::move(operands)),
        tree_(reduction_tree(group)),
        positions_(static_cast<int64_t>(tree_.size() + 1) / 2),
        kernels_(gemm_kernels(instruction_set())),
        strip_(2 * kernels_.vector_width),
        reads_b_in_place_(operands_.b_column_stride == 1 && operands_.summed.size() == 1) {
    MTF_CHECK(operands_.depth <= depth_block(operands_.depth), "a term is summed in one block");
    const int64_t units = ceil_divide(operands_.rows(), kRowUnit);
    tasks_ = std::clamp<int64_t>(positions_ * operands_.flops() / kFlopsPerJointTask, 1,
                                 std::max<int64_t>(1, std::min(units, kMostJointTasks)));
    const int64_t strips = std::max<int64_t>(1, kPackedElements / (positions_ * operands_.depth * strip_));
    columns_at_once_ = std::min(strips * strip_, round_up(operands_.columns, strip_));
    std::vector<int64_t> buffers;  // that the sum of a node needs, by node
    for (const TreeNode& node : tree_) {
      const bool has_sums = node.left >= 0 && tree_[node.right].left >= 0;
      const int64_t left = node.left < 0 ? 0 : buffers[node.left];
      buffers.push_back(has_sums ? std::max(left, buffers[node.right] + 1) : left);
    }
    buffers_ = buffers.back();
  }

  int64_t tasks() const override { return tasks_; }
  size_t scratch_bytes() const override {
    const int64_t elements = packed_b_elements() + packed_a_elements() + buffers_ * tile_elements();
    return static_cast<size_t>(elements) * sizeof(float);
  }

  int64_t run(const KernelCall& call, int64_t begin, int64_t end) const override {
    const int64_t row = row_at(begin), end_row = row_at(end);
    auto* const packed_b = reinterpret_cast<float*>(call.scratch);
    float* const packed_a = packed_b + packed_b_elements();
    float* const buffers = packed_a + packed_a_elements();
    for (int64_t column = 0; column < operands_.columns; column += columns_at_once_) {
      const int64_t end_column = std::min(operands_.columns, column + columns_at_once_);
      const int64_t panels = ceil_divide(end_row - row, int64_t{kernels_.tile_rows});
      for (int64_t panel = 0; panel < panels; ++panel) {
        const int64_t first = row + (end_row - row) * panel / panels,
                      last = row + (end_row - row) * (panel + 1) / panels;
        pack_a(call, first, last, packed_a);
        multiply_panel(call, {first, last - first, column, end_column, panel == 0},
                       {packed_a, packed_b, buffers});
      }
    }
    return 2 * (end_row - row) * operands_.columns * operands_.depth * positions_;
  }

 private:
  struct Scratch {
    float *packed_a, *packed_b, *buffers;
  };
  /// Rows that are multiplied by columns; the first panel brings their B to where it is packed.
  struct Panel {
    int64_t row, rows, column, end_column;
    bool is_first;
  };
  /// A tile of the total, and the packed operands of all positions.
  struct TotalTile {
    GemmKernels::Multiply multiply;
    const float* a;
    float* b;
    int64_t a_stride, b_stride;  ///< between positions
    int64_t rows, column, columns, width;
    float* buffers;
    const KernelCall* unpacked;  ///< where B is read, and packed meanwhile; null: it is packed
  };

  int64_t row_at(int64_t task) const {
    const int64_t units = ceil_divide(operands_.rows(), kRowUnit);
    return std::min(operands_.rows(), units * task / tasks_ * kRowUnit);
  }
  int64_t packed_b_elements() const { return positions_ * operands_.depth * columns_at_once_ + kLine; }
  int64_t packed_a_elements() const {
    return round_up(positions_ * operands_.depth * kernels_.tile_rows, kLine) + kLine;
  }
  int64_t tile_elements() const { return kernels_.tile_rows * strip_; }

  /// Packs the whole depth of a strip, in runs along the innermost summed axis.
  void pack(Strip<float> strip, int64_t SummedAxis::*stride, float* to, int64_t to_stride) const {
    const float* data = strip.data;
    const SummedAxis inner = operands_.summed.empty() ? SummedAxis{} : operands_.summed.back();
    strip.depth_stride = inner.*stride;
    strip.depth = inner.size;
    for (int64_t k = 0; k < operands_.depth; k += inner.size) {
      strip.data = data + depth_offset(operands_.summed, k, stride);
      kernels_.pack(strip, to + k * to_stride, to_stride);
    }
  }

  /// Packs a strip of B of each position, one after the other, as [depth][width].
  void pack_b(const KernelCall& call, int64_t column, int64_t columns, int64_t width, float* to) const {
    for (int64_t position = 0; position < positions_; ++position) {
      pack({.data = b_of(call, position) + column * operands_.b_column_stride,
            .width = columns,
            .stride = operands_.b_column_stride},
           &SummedAxis::b_stride, to, width);
      to += operands_.depth * width;
    }
  }

  const float* b_of(const KernelCall& call, int64_t position) const {
    return call.input<float>(static_cast<int>(2 * position) + operands_.b);
  }

  /// Packs the positions one after the other, as [depth][rows].
  void pack_a(const KernelCall& call, int64_t row, int64_t end_row, float* to) const {
    const int64_t rows = end_row - row;
    const int64_t* offsets = operands_.a_rows.data() + row;
    const int64_t stride = rows > 1 ? offsets[1] - offsets[0] : 1;
    bool is_regular = true;
    for (int64_t i = 1; i < rows; ++i) is_regular &= offsets[i] - offsets[i - 1] == stride;
    for (int64_t position = 0; position < positions_; ++position) {
      const float* a = call.input<float>(static_cast<int>(2 * position) + operands_.a);
      const Strip<float> strip = is_regular
                                     ? Strip<float>{.data = a + offsets[0], .width = rows, .stride = stride}
                                     : Strip<float>{.data = a, .width = rows, .offsets = offsets};
      pack(strip, &SummedAxis::a_stride, to, rows);
      to += operands_.depth * rows;
    }
  }

  int64_t width_of(int64_t columns) const {
    return columns > kernels_.vector_width ? strip_ : kernels_.vector_width;
  }

  void multiply_panel(const KernelCall& call, const Panel& panel, const Scratch& scratch) const {
    float* b = scratch.packed_b;
    for (int64_t column = panel.column; column < panel.end_column; column += strip_) {
      const int64_t columns = std::min(strip_, panel.end_column - column), width = width_of(columns);
      const bool copies = panel.is_first && reads_b_in_place_ && columns == width;
      if (panel.is_first && !copies) pack_b(call, column, columns, width, b);
      const int vectors = width > kernels_.vector_width ? 2 : 1;
      const TotalTile tile{.multiply = kernels_.packed[vectors - 1][panel.rows - 1],
                           .a = scratch.packed_a,
                           .b = b,
                           .a_stride = operands_.depth * panel.rows,
                           .b_stride = operands_.depth * width,
                           .rows = panel.rows,
                           .column = column,
                           .columns = columns,
                           .width = width,
                           .buffers = scratch.buffers,
                           .unpacked = copies ? &call : nullptr};
      add(tile, static_cast<int>(tree_.size()) - 1, 0,
          {call.output<float>(0) + column, 0, operands_.c_rows.data() + panel.row});
      b += positions_ * tile.b_stride;
    }
  }

  /// Writes the sum of a subtree to `target`. Buffers from `level` on are free.
  void add(const TotalTile& tile, int node, int level, const Target& target) const {
    const TreeNode& tree = tree_[static_cast<size_t>(node)];
    if (tree.left < 0) return multiply(tile, tree.member, target, false);
    add(tile, tree.left, level, target);
    const TreeNode& right = tree_[static_cast<size_t>(tree.right)];
    if (right.left < 0) return multiply(tile, right.member, target, true);
    float* const buffer = tile.buffers + level * tile_elements();
    add(tile, tree.right, level + 1, {buffer, strip_, nullptr});
    dispatched<add_tile>(target, buffer, strip_, tile.rows, tile.columns);
  }

  /// Multiplies the tile of one position.
  void multiply(const TotalTile& total, int64_t position, const Target& target, bool adds) const {
    Tile tile;
    tile.c = target.c;
    tile.c_row_stride = target.row_stride;
    tile.c_rows = target.rows;
    tile.columns = total.columns;
    tile.depth = operands_.depth;
    tile.a = total.a + position * total.a_stride;
    float* const packed_b = total.b + position * total.b_stride;
    tile.b = packed_b;
    tile.b_depth_stride = total.width;
    if (total.unpacked) {
      tile.b_depth_stride = operands_.summed[0].b_stride;
      tile.b = b_of(*total.unpacked, position) + total.column;
      tile.b_prefetch = kPrefetchedRows * tile.b_depth_stride;
      tile.packed_b = packed_b;
    }
    tile.add = adds;
    total.multiply(tile);
  }

  JointOperands operands_;
  std::vector<TreeNode> tree_;
  int64_t positions_;
  const GemmKernels& kernels_;
  int64_t strip_;
  bool reads_b_in_place_;
  int64_t columns_at_once_ = 0, tasks_ = 1;
  int64_t buffers_ = 0;  ///< tiles of sums that are made apart from their total
};

}  // namespace

std::unique_ptr<Kernel> prepare_summed_products(JointOperands operands, const std::vector<int64_t>& group) {
  return std::make_unique<SummedProducts>(std::move(operands), group);
}

}  // namespace mtf
