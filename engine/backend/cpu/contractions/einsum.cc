// Contraction of two tensors as strided loops around 2-D matrix products.
//
// The dimensions of each class (batch, rows, columns, summed) are joined where the strides of all operands
// allow it. One axis of rows and one of columns form the product, with all of the summed axes; the rest are
// loops. An output whose columns are not contiguous, or in bfloat16, is first computed in scratch memory.
//
// The bits of an entry do not depend on how rows, columns and batch are cut (gemm.h). Consecutive tasks can
// therefore be joined, and layouts do not change results.
#include "engine/ops/einsum.h"

#include <algorithm>
#include <array>

#include "engine/backend/cpu/contractions/contraction_axes.h"
#include "engine/backend/cpu/contractions/gemm.h"
#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/backend/element.h"
#include "engine/backend/strided.h"

namespace mtf {
namespace {

using Axis = StridedAxis<3>;
using Axes = StridedAxes<3>;

/// Loops are cut into tasks of about this many FLOPs.
constexpr int64_t kFlopsPerLoopTask = kFlopsPerTask / 2;
/// Reading an element of B takes as long as so many FLOPs, which counts where there are few rows: they are cut into tasks of
/// at least kLeastRead.
constexpr int64_t kFlopsPerElement = 16, kLeastRead = 3 << 20;
/// Packing A costs several times as much where the entries of a row are at least so many bytes apart: no hardware prefetches them.
constexpr size_t kFarApart = 2048;
constexpr int64_t kCostOfFarDepths = 4;
constexpr int64_t kColumnUnit = 64, kRowUnit = 28;  ///< each is two tiles
/// The largest number of elements of an output in scratch (unless one unit of rows has more).
constexpr int64_t kPackedElements = 1 << 20;

struct Plan {
  Axes loops;                  ///< batch dimensions, and rows and columns that could not be joined
  Axes sums;                   ///< summed dimensions, in the order of the first input
  Axis rows, columns;          ///< axes of one product
  int64_t b_strip_stride = 0;  ///< Product::b_strip_stride
};

/// Removes and returns the axis that is best as one side of a product: one of at least 16 entries that is
/// contiguous in one of the operands, preferably the output; else the longest.
Axis take_best(Axes& axes, ContractionOperand preferred, ContractionOperand second) {
  if (axes.empty()) return Axis{};
  const auto score = [&](const Axis& axis) {
    const int64_t contiguous = axis.strides[preferred] == 1 ? 2 : axis.strides[second] == 1 ? 1 : 0;
    return std::pair(axis.size >= 16 ? contiguous : 0, axis.size);
  };
  const auto best = std::max_element(axes.begin(), axes.end(),
                                     [&](const Axis& x, const Axis& y) { return score(x) < score(y); });
  const Axis axis = *best;
  axes.erase(best);
  return axis;
}

void swap_operands(Axes& axes) {
  for (Axis& axis : axes) std::swap(axis.strides[kA], axis.strides[kB]);
}

Plan make_plan(const KernelContext& context) {
  const ContractionClasses classes =
      classify(context.inputs[0].global, context.inputs[1].global, context.outputs[0].global);
  Plan plan;
  plan.loops = contraction_axes(classes.batch, context, kOut);
  Axes rows = contraction_axes(classes.rows, context, kOut),
       columns = contraction_axes(classes.columns, context, kOut);
  plan.sums = contraction_axes(classes.summed, context, kA);
  plan.rows = take_best(rows, kOut, kA);
  plan.columns = take_best(columns, kOut, kB);
  for (const Axes* rest : {&rows, &columns}) plan.loops.insert(plan.loops.end(), rest->begin(), rest->end());
  return plan;
}

/// Makes one axis of columns that are stored in strips: of neighbours, and of strips in a loop.
void join_strips(Plan& plan) {
  if (plan.columns.size != kStripColumns || plan.columns.strides != Offsets<3>{0, 1, 1}) return;
  const auto strips = std::ranges::find_if(plan.loops, [](const Axis& axis) {
    return axis.strides[kA] == 0 && axis.strides[kB] > 0 && axis.strides[kOut] == kStripColumns;
  });
  if (strips == plan.loops.end()) return;
  plan.columns.size *= strips->size;
  plan.b_strip_stride = strips->strides[kB];
  plan.loops.erase(strips);
}

/// True if the operands should be swapped, which makes the columns of the output its rows.
bool better_swapped(const Plan& plan) {
  if (plan.b_strip_stride > 0) return false;
  if (plan.rows.size == 1 || plan.columns.size == 1) return plan.columns.size == 1 && plan.rows.size > 1;
  return plan.columns.strides[kOut] != 1 && plan.rows.strides[kOut] == 1;
}

/// The begin of part `part` if `size` entries are cut into `parts` parts in multiples of `unit`.
int64_t begin_of(int64_t part, int64_t parts, int64_t size, int64_t unit) {
  return std::min(size, (size + unit - 1) / unit * part / parts * unit);
}

/// Contracts elements of type T to an output of type Out, which is T or float32.
template <class T, class Out>
class EinsumKernel final : public Kernel {
 public:
  EinsumKernel(Plan plan, bool in_bfloat16)
      : plan_(std::move(plan)), in_bfloat16_(in_bfloat16), swapped_(better_swapped(plan_)) {
    if (swapped_) {
      std::swap(plan_.rows, plan_.columns);
      swap_operands(plan_.loops);
      swap_operands(plan_.sums);
      for (Axis* axis : {&plan_.rows, &plan_.columns}) std::swap(axis->strides[kA], axis->strides[kB]);
    }
    for (const Axis& axis : plan_.sums) summed_.push_back({axis.size, axis.strides[kA], axis.strides[kB]});
    depth_ = size_of(plan_.sums);
    out_in_scratch_ = !std::is_same_v<Out, C> || (plan_.columns.size > 1 && plan_.columns.strides[kOut] != 1);
    rows_at_once_ = plan_.rows.size;
    if (out_in_scratch_) {
      const int64_t units =
          std::max(kPackedElements / std::max<int64_t>(1, plan_.columns.size) / kRowUnit, int64_t{1});
      rows_at_once_ = std::min(rows_at_once_, units * kRowUnit);
    }
    cut_tasks();
  }

  int64_t tasks() const override { return loop_groups_ * column_blocks_ * row_blocks_; }

  size_t scratch_bytes() const override {
    return static_cast<size_t>(out_elements() + product_scratch(rows_at_once_, plan_.columns.size, depth_)) *
           sizeof(C);
  }

  int64_t run(const KernelCall& call, int64_t begin, int64_t end) const override {
    const int64_t loops = size_of(plan_.loops), blocks = column_blocks_ * row_blocks_;
    int64_t flops = 0;
    for (int64_t task = begin; task < end;) {
      const int64_t group = task / blocks;
      const Rectangle rectangle = joined_blocks(task % blocks, std::min(end - group * blocks, blocks));
      for_each_offset(plan_.loops, group * loops_per_task_, std::min(loops, (group + 1) * loops_per_task_),
                      [&](const Offsets<3>& at) { flops += run_product(call, at, rectangle); });
      task += rectangle.blocks;
    }
    return flops;
  }

 private:
  using C = Computed<T>;

  /// A rectangle of entries of a product, computed by `blocks` tasks.
  struct Rectangle {
    int64_t row, end_row, column, end_column, blocks;
  };

  /// Cuts large products into up to kMostFlopTasks blocks, choosing the cut that packs the least of those with at least three
  /// quarters as many.
  void cut_tasks() {
    const int64_t loops = size_of(plan_.loops), rows = plan_.rows.size, columns = plan_.columns.size;
    const int64_t flops = 2 * rows * columns * depth_;
    loops_per_task_ = std::clamp<int64_t>(kFlopsPerLoopTask / std::max<int64_t>(1, flops), 1, loops);
    loop_groups_ = (loops + loops_per_task_ - 1) / loops_per_task_;
    const int64_t read = kFlopsPerElement * columns * depth_;
    const int64_t parts = std::max(flops / kFlopsPerTask, flops <= read ? read / kLeastRead : 0);
    const int64_t wanted = std::min(parts, kMostFlopTasks / loop_groups_);
    const int64_t cost = packing_cost_of_rows();
    int64_t most = 1, least_packed = cost * rows + columns;
    for (int64_t across = 1; across <= std::min(wanted, columns / (2 * kColumnUnit)); ++across) {
      const int64_t down = std::clamp<int64_t>(rows / (3 * kRowUnit), 1, (wanted + across - 1) / across);
      const int64_t packed = across * cost * rows + down * columns;
      const int64_t blocks = std::min(wanted - wanted / 4, across * down);
      if (std::pair(blocks, -packed) <= std::pair(most, -least_packed)) continue;
      most = blocks;
      least_packed = packed;
      column_blocks_ = across;
      row_blocks_ = down;
    }
    if (most > 1 || loop_groups_ > 1 || wanted < 2) return;
    // A small result of a long sum: smaller blocks rather than one thread.
    if (columns >= 2 * kColumnUnit) {
      column_blocks_ = 2;
    } else if (rows >= 2 * kRowUnit) {
      row_blocks_ = 2;
    }
  }

  /// True if the blocks are numbered across the columns first, otherwise down the rows first: neighbouring blocks, which one
  /// thread computes, join to bands of the longer side, with which the least is packed.
  bool in_row_bands() const { return packing_cost_of_rows() * plan_.rows.size >= plan_.columns.size; }

  /// What it costs to pack a row of A, where a column of B costs 1.
  int64_t packing_cost_of_rows() const {
    const bool by_depth = !plan_.sums.empty() && plan_.rows.strides[kA] == 1 &&
                          plan_.sums.back().strides[kA] * sizeof(T) >= kFarApart;
    return by_depth ? kCostOfFarDepths : 1;
  }

  /// The largest rectangle that consists of the first of the blocks begin ... end - 1.
  Rectangle joined_blocks(int64_t begin, int64_t end) const {
    const int64_t across_band = in_row_bands() ? column_blocks_ : row_blocks_;
    const int64_t band = begin / across_band, place = begin % across_band;
    const int64_t width = std::min(end - begin, across_band - place);
    const int64_t bands = width == across_band ? (end - begin) / across_band : 1;
    const auto row_at = [&](int64_t i) { return begin_of(i, row_blocks_, plan_.rows.size, kRowUnit); };
    const auto column_at = [&](int64_t i) {
      return begin_of(i, column_blocks_, plan_.columns.size, kColumnUnit);
    };
    if (in_row_bands())
      return {row_at(band), row_at(band + bands), column_at(place), column_at(place + width), width * bands};
    return {row_at(place), row_at(place + width), column_at(band), column_at(band + bands), width * bands};
  }

  int64_t out_elements() const {
    return out_in_scratch_ ? (rows_at_once_ * plan_.columns.size + 15) / 16 * 16 : 0;
  }

  int64_t run_product(const KernelCall& call, const Offsets<3>& at, const Rectangle& rectangle) const {
    const int64_t columns = rectangle.end_column - rectangle.column;
    const T* a = call.input<T>(swapped_ ? 1 : 0) + at[kA];
    Product<T> product;
    product.b = call.input<T>(swapped_ ? 0 : 1) + at[kB];
    product.b_column_stride = plan_.columns.strides[kB];
    product.b_strip_stride = plan_.b_strip_stride;
    product.b = product.b_at(rectangle.column);
    Out* out = call.output<Out>(0) + at[kOut] + rectangle.column * plan_.columns.strides[kOut];
    C* scratch = reinterpret_cast<C*>(call.scratch);
    for (int64_t row = rectangle.row; row < rectangle.end_row; row += rows_at_once_) {
      const int64_t rows = std::min(rows_at_once_, rectangle.end_row - row);
      Out* rows_out = out + row * plan_.rows.strides[kOut];
      product.rows = rows;
      product.columns = columns;
      product.summed = summed_;
      product.a = a + row * plan_.rows.strides[kA];
      product.a_row_stride = plan_.rows.strides[kA];
      product.c = scratch;
      product.c_row_stride = columns;
      product.in_bfloat16 = in_bfloat16_;
      if constexpr (std::is_same_v<Out, C>) {
        if (!out_in_scratch_) {
          product.c = rows_out;
          product.c_row_stride = plan_.rows.strides[kOut];
        }
      }
      multiply(product, scratch + out_elements());
      if (out_in_scratch_) store(scratch, rows_out, rows, columns);
    }
    return 2 * (rectangle.end_row - rectangle.row) * columns * depth_;
  }

  void store(const C* from, Out* out, int64_t rows, int64_t columns) const {
    for (int64_t i = 0; i < rows; ++i) {
      Out* to = out + i * plan_.rows.strides[kOut];
      for (int64_t j = 0; j < columns; ++j)
        to[j * plan_.columns.strides[kOut]] = narrow<Out>(from[i * columns + j]);
    }
  }

  Plan plan_;
  bool in_bfloat16_, swapped_;
  std::vector<SummedAxis> summed_;
  int64_t depth_;
  bool out_in_scratch_;
  int64_t rows_at_once_;  ///< rows of the output computed in scratch at a time
  int64_t loops_per_task_ = 1, loop_groups_ = 1, column_blocks_ = 1, row_blocks_ = 1;
};

constexpr int64_t kProductsPerTask = 512;

/// For contractions without rows and columns whose innermost batch axis is contiguous in all operands: that
/// axis is vectorised. Sums are made in the blocks of a matrix product, so that they have the same bits.
template <class T, class Out>
class ElementwiseKernel final : public Kernel {
 public:
  ElementwiseKernel(Plan plan, int64_t size, bool in_bfloat16)
      : plan_(std::move(plan)),
        in_bfloat16_(in_bfloat16),
        size_(size),
        vectors_((size + kProductsPerTask - 1) / kProductsPerTask),
        depth_(size_of(plan_.sums)) {}
  int64_t tasks() const override { return size_of(plan_.loops) * vectors_; }
  size_t scratch_bytes() const override { return 2 * kProductsPerTask * sizeof(Computed<T>); }
  int64_t run(const KernelCall& call, int64_t begin, int64_t end) const override {
    auto* total = reinterpret_cast<Computed<T>*>(call.scratch);
    int64_t flops = 0;
    for (int64_t task = begin; task < end; ++task) {
      const Offsets<3> at = offsets_of(plan_.loops, task / vectors_);
      const int64_t first = task % vectors_ * kProductsPerTask, n = std::min(kProductsPerTask, size_ - first);
      const int64_t block = depth_block(depth_);
      for (int64_t k = 0; k < depth_; k += block) {
        Computed<T>* sums = k == 0 ? total : total + kProductsPerTask;
        std::fill(sums, sums + n, Computed<T>(0));
        add_block(call.input<T>(0) + at[kA] + first, call.input<T>(1) + at[kB] + first, n, k,
                  std::min(depth_, k + block), sums);
        for (int64_t j = 0; k > 0 && j < n; ++j) total[j] += sums[j];
      }
      flops += 2 * depth_ * n;
      Out* out = call.output<Out>(0) + at[kOut] + first;
      for (int64_t j = 0; j < n; ++j) out[j] = narrow<Out>(total[j]);
    }
    return flops;
  }

 private:
  /// Adds the products of depths k ... end - 1, in runs along the innermost summed axis. In bfloat16 they are one run.
  void add_block(const T* a, const T* b, int64_t n, int64_t k, int64_t end, Computed<T>* sums) const {
    const Axis inner = plan_.sums.empty() ? Axis{} : plan_.sums.back();
    if (in_bfloat16_ && plan_.sums.size() > 1) {
      std::array<int64_t, kMaximalBlockDepth> a_places, b_places;
      for (int64_t i = 0; i < end - k; ++i) {
        const Offsets<3> place = offsets_of(plan_.sums, k + i);
        a_places[i] = place[kA];
        b_places[i] = place[kB];
      }
      add_products(Products<T>{.a = a,
                               .b = b,
                               .depth = end - k,
                               .size = n,
                               .in_bfloat16 = true,
                               .a_places = a_places.data(),
                               .b_places = b_places.data()},
                   sums);
      return;
    }
    while (k < end) {
      const Offsets<3> sum = offsets_of(plan_.sums, k);
      const int64_t run = std::min(end - k, inner.size - k % inner.size);
      add_products(
          Products<T>{a + sum[kA], b + sum[kB], inner.strides[kA], inner.strides[kB], run, n, in_bfloat16_},
          sums);
      k += run;
    }
  }

  Plan plan_;
  bool in_bfloat16_;
  int64_t size_, vectors_, depth_;
};

template <class T, class Out>
std::unique_ptr<Kernel> einsum_into(const KernelContext& context) {
  Plan plan = make_plan(context);
  const bool in_bfloat16 =
      static_cast<const Einsum&>(context.operation).precision == MatmulPrecision::kBFloat16;
  if (!in_bfloat16 && !std::is_same_v<T, double>) join_strips(plan);
  if (plan.rows.size == 1 && plan.columns.size == 1 && !plan.loops.empty()) {
    const Axis inner = plan.loops.back();
    if (inner.size >= 8 && inner.strides == Offsets<3>{1, 1, 1}) {
      plan.loops.pop_back();
      return std::make_unique<ElementwiseKernel<T, Out>>(std::move(plan), inner.size, in_bfloat16);
    }
  }
  return std::make_unique<EinsumKernel<T, Out>>(std::move(plan), in_bfloat16);
}

template <class T>
std::unique_ptr<Kernel> einsum_kernel(const KernelContext& context) {
  const bool widens = context.outputs[0].dtype != DTypeOf<T>::value;
  return widens ? einsum_into<T, Computed<T>>(context) : einsum_into<T, T>(context);
}

const KernelRegistration einsum_f32("einsum", {DType::kFloat32}, einsum_kernel<float>);
const KernelRegistration einsum_f64("einsum", {DType::kFloat64}, einsum_kernel<double>);
const KernelRegistration einsum_bf16("einsum", {DType::kBFloat16}, einsum_kernel<BFloat16>);

}  // namespace
}  // namespace mtf
