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
/// Panels of A that are packed, and multiplied by a strip of B, at a time: together they stay in L1.
constexpr int64_t kJointPanels = 4;

/// The tile `sum` += terms, of which each row has `stride` elements.
MTF_INLINE void add_tile(const Tile& sum, const float* terms, int64_t stride, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i, terms += stride) {
    float* row = sum.row(i);
#pragma GCC ivdep
    for (int64_t j = 0; j < columns; ++j) row[j] += terms[j];
  }
}

/// Adds the products of several positions, each of them a product of its own, in the order of a reduction tree.
class SummedProducts final : public Kernel {
 public:
  SummedProducts(JointOperands operands, const std::vector<int64_t>& group)
      : operands_(std::move(operands)),
        kernels_(gemm_kernels(instruction_set())),
        strip_(2 * kernels_.vector_width),
        panel_rows_(kernels_.two_rows > 0 ? kernels_.two_rows : kernels_.tile_rows),
        reads_b_in_place_(operands_.b_column_stride == 1 && operands_.summed.size() == 1) {
    MTF_CHECK(operands_.depth <= depth_block(operands_.depth), "a term is summed in one block");
    const std::vector<TreeNode> tree = reduction_tree(group);
    positions_ = static_cast<int64_t>(tree.size() + 1) / 2;
    add_steps(tree, static_cast<int>(tree.size()) - 1, 0, false);
    const int64_t units = ceil_divide(operands_.rows(), kRowUnit);
    tasks_ = std::clamp<int64_t>(positions_ * operands_.flops() / kFlopsPerJointTask, 1,
                                 std::max<int64_t>(1, std::min(units, kMostJointTasks)));
    const int64_t strips = std::max<int64_t>(1, kPackedElements / (positions_ * operands_.depth * strip_));
    columns_at_once_ = std::min(strips * strip_, round_up(operands_.columns, strip_));
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
    const Panels panels = panels_of(end_row - row, panel_rows_);
    for (int64_t column = 0; column < operands_.columns; column += columns_at_once_) {
      const int64_t end_column = std::min(operands_.columns, column + columns_at_once_);
      for (int64_t first = 0; first < panels.count; first += kJointPanels) {
        const Panels some = panels.some(first, kJointPanels);
        const int64_t first_row = row + panels.begin(first);
        pack_a(call, first_row, some, packed_a);
        multiply_panels(call, {first_row, some, column, end_column, first == 0},
                        {packed_a, packed_b, buffers});
      }
    }
    return 2 * (end_row - row) * operands_.columns * operands_.depth * positions_;
  }

 private:
  /// A part of the sum of a tile, which is written or added to `target`: 0 is the total, the others are buffers.
  struct Step {
    int64_t first = -1, second = -1;  ///< the positions whose products it adds; the second one may be missing
    int buffer = 0;                   ///< it adds this one in place of a product
    int target = 0;
    bool adds = false;
  };
  struct Scratch {
    float *packed_a, *packed_b, *buffers;
  };
  /// Panels of rows that are multiplied by columns; the first ones bring their B to where it is packed.
  struct Part {
    int64_t row;
    Panels panels;
    int64_t column, end_column;
    bool is_first;
  };
  /// A tile of the total, and the packed operands of all positions.
  struct TotalTile {
    const float* a;
    float* b;
    int64_t a_stride, b_stride;  ///< between positions
    int64_t row, rows, column, columns, width;
    float* buffers;
    const KernelCall& call;
    bool copies;  ///< B is read where it is, and packed meanwhile
  };

  /// Adds the steps that write the sum of a subtree to `target`, or add it there. Buffers behind `target` are free.
  void add_steps(const std::vector<TreeNode>& tree, int node, int target, bool adds) {
    buffers_ = std::max<int64_t>(buffers_, target);
    const TreeNode& sum = tree[static_cast<size_t>(node)];
    const auto member = [&](int leaf) { return leaf < 0 ? -1 : tree[static_cast<size_t>(leaf)].member; };
    const bool is_pair = kernels_.two_rows > 0 && member(sum.left) >= 0 && member(sum.right) >= 0;
    if (sum.left < 0 || is_pair) {
      steps_.push_back({.first = is_pair ? member(sum.left) : sum.member,
                        .second = is_pair ? member(sum.right) : -1,
                        .target = target,
                        .adds = adds});
    } else if (adds) {
      add_steps(tree, node, target + 1, false);
      steps_.push_back({.buffer = target + 1, .target = target, .adds = true});
    } else {
      add_steps(tree, sum.left, target, false);
      add_steps(tree, sum.right, target, true);
    }
  }

  int64_t row_at(int64_t task) const {
    const int64_t units = ceil_divide(operands_.rows(), kRowUnit);
    return std::min(operands_.rows(), units * task / tasks_ * kRowUnit);
  }
  int64_t packed_b_elements() const { return positions_ * operands_.depth * columns_at_once_ + kLine; }
  int64_t packed_a_elements() const {
    return round_up(positions_ * operands_.depth * kJointPanels * panel_rows_, kLine) + kLine;
  }
  int64_t tile_elements() const { return panel_rows_ * strip_; }

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

  /// Packs the positions one after the other, each panel as [depth][rows].
  void pack_a(const KernelCall& call, int64_t row, const Panels& panels, float* to) const {
    const int64_t* offsets = operands_.a_rows.data() + row;
    const int64_t rows = panels.rows(), stride = rows > 1 ? offsets[1] - offsets[0] : 1;
    bool is_regular = true;
    for (int64_t i = 1; i < rows; ++i) is_regular &= offsets[i] - offsets[i - 1] == stride;
    for (int64_t position = 0; position < positions_; ++position) {
      const float* a = call.input<float>(static_cast<int>(2 * position) + operands_.a);
      if (is_regular && stride == 1 && operands_.summed.size() == 1) {
        const SummedAxis& axis = operands_.summed[0];
        kernels_.pack_panels({.data = a + offsets[0],
                              .width = rows,
                              .stride = 1,
                              .depth = axis.size,
                              .depth_stride = axis.a_stride},
                             panels, to);
        to += operands_.depth * rows;
        continue;
      }
      for (int64_t panel = 0; panel < panels.count; ++panel) {
        const int64_t first = panels.begin(panel), width = panels.rows(panel);
        pack(is_regular ? Strip<float>{.data = a + offsets[first], .width = width, .stride = stride}
                        : Strip<float>{.data = a, .width = width, .offsets = offsets + first},
             &SummedAxis::a_stride, to, width);
        to += operands_.depth * width;
      }
    }
  }

  int64_t width_of(int64_t columns) const {
    return columns > kernels_.vector_width ? strip_ : kernels_.vector_width;
  }

  void multiply_panels(const KernelCall& call, const Part& part, const Scratch& scratch) const {
    float* b = scratch.packed_b;
    for (int64_t column = part.column; column < part.end_column; column += strip_) {
      const int64_t columns = std::min(strip_, part.end_column - column), width = width_of(columns);
      const bool copies = part.is_first && reads_b_in_place_ && columns == width;
      if (part.is_first && !copies) pack_b(call, column, columns, width, b);
      for (int64_t panel = 0; panel < part.panels.count; ++panel) {
        const int64_t first = part.panels.begin(panel);
        multiply({.a = scratch.packed_a + operands_.depth * first,
                  .b = b,
                  .a_stride = operands_.depth * part.panels.rows(),
                  .b_stride = operands_.depth * width,
                  .row = part.row + first,
                  .rows = part.panels.rows(panel),
                  .column = column,
                  .columns = columns,
                  .width = width,
                  .buffers = scratch.buffers,
                  .call = call,
                  .copies = copies && panel == 0});
      }
      b += positions_ * operands_.depth * width;
    }
  }

  /// Makes a tile of the total.
  void multiply(const TotalTile& total) const {
    const int vectors = total.width > kernels_.vector_width ? 2 : 1;
    const auto one = kernels_.packed[vectors - 1][total.rows - 1];
    const auto two = kernels_.two[vectors - 1][total.rows - 1];
    Tile tile;
    tile.columns = total.columns;
    tile.depth = operands_.depth;
    tile.b_depth_stride = total.width;
    if (total.copies) {
      tile.b_depth_stride = operands_.summed[0].b_stride;
      tile.b_prefetch = kPrefetchedRows * tile.b_depth_stride;
    }
    Tile second = tile;
    const auto set_position = [&](Tile& factors, int64_t position) {
      float* const packed_b = total.b + position * total.b_stride;
      factors.a = total.a + position * total.a_stride;
      factors.b = total.copies ? b_of(total.call, position) + total.column : packed_b;
      factors.packed_b = total.copies ? packed_b : nullptr;
    };
    for (const Step& step : steps_) {
      if (step.target == 0) {
        tile.c = total.call.output<float>(0) + total.column;
        tile.c_rows = operands_.c_rows.data() + total.row;
      } else {
        tile.c = buffer(total, step.target);
        tile.c_row_stride = strip_;
        tile.c_rows = nullptr;
      }
      tile.add = step.adds;
      if (step.buffer > 0) {
        dispatched<add_tile>(tile, buffer(total, step.buffer), strip_, total.rows, total.columns);
        continue;
      }
      set_position(tile, step.first);
      if (step.second < 0) {
        one(tile);
      } else {
        set_position(second, step.second);
        two(tile, second);
      }
    }
  }

  float* buffer(const TotalTile& total, int number) const {
    return total.buffers + (number - 1) * tile_elements();
  }

  JointOperands operands_;
  const GemmKernels& kernels_;
  int64_t strip_, panel_rows_;
  bool reads_b_in_place_;
  int64_t positions_ = 0;
  std::vector<Step> steps_;
  int64_t buffers_ = 0;  ///< tiles of sums that are made apart from their total
  int64_t columns_at_once_ = 0, tasks_ = 1;
};

}  // namespace

std::unique_ptr<Kernel> prepare_summed_products(JointOperands operands, const std::vector<int64_t>& group) {
  return std::make_unique<SummedProducts>(std::move(operands), group);
}

}  // namespace mtf
