// Contraction of two tensors as strided loops around 2-D matrix products.
//
// The dimensions of each class (batch, rows, columns, summed) are joined where the strides of all operands
// allow it. One axis of each class forms the product; the rest are loops. Whatever declared order leaves
// neither axis of an operand contiguous, and bfloat16, which is widened, is packed into scratch.
#include "engine/ops/einsum.h"

#include <algorithm>

#include "engine/backend/cpu/element.h"
#include "engine/backend/cpu/gemm.h"
#include "engine/backend/cpu/strided.h"
#include "engine/backend/kernel.h"

namespace mtf {
namespace {

/// Strides of an axis in a, b and the output.
enum : size_t { kA = 0, kB = 1, kOut = 2 };
using Axis = StridedAxis<3>;
using Axes = StridedAxes<3>;

/// Tasks are cut along loops into about this many FLOPs, and along columns into blocks no narrower than
/// kColumnsPerTask: each block copies the left operand anew, which costs one thread 1-3 % at 400-500 columns
/// (2000x784x1024) and 8 % at 192. sgemm's bits depend on the width, so blocks are never joined.
constexpr int64_t kFlopsPerTask = 4 << 20;
constexpr int64_t kColumnsPerTask = 384;
constexpr int64_t kColumnUnit = 48;  ///< width of sgemm's inner tile
/// Packed operands of one product have at most this many elements (or one unit of rows).
constexpr int64_t kPackedElements = 1 << 20;
constexpr int64_t kRowUnit = 16;

struct Plan {
  Axes loops;                 ///< batch dimensions, and rows and columns that could not be joined
  Axes sums;                  ///< summed dimensions that could not be joined, added in order
  Axis rows, columns, depth;  ///< of one product
};

Axes axes_of(const Shape& dimensions, const KernelContext& context, size_t order) {
  Axes axes;
  for (const Dimension& d : dimensions) {
    Axis axis;
    const LocalTensor* operands[] = {&context.inputs[0], &context.inputs[1], &context.outputs[0]};
    for (size_t i = 0; i < 3; ++i) {
      const std::optional<int> position = operands[i]->global.find(d.name);
      if (!position) continue;
      axis.size = operands[i]->local[*position].size;
      axis.strides[i] = operands[i]->strides[*position];
    }
    axes.push_back(axis);
  }
  std::stable_sort(axes.begin(), axes.end(),
                   [order](const Axis& x, const Axis& y) { return x.strides[order] > y.strides[order]; });
  return joined(axes);
}

/// Takes the axis that is best as one side of a product: of at least 16 entries and contiguous in one of the
/// operands, preferably the output; else the longest.
Axis take_best(Axes& axes, size_t preferred, size_t second) {
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
  plan.loops = axes_of(classes.batch, context, kOut);
  Axes rows = axes_of(classes.rows, context, kOut), columns = axes_of(classes.columns, context, kOut);
  plan.sums = axes_of(classes.summed, context, kA);
  plan.rows = take_best(rows, kOut, kA);
  plan.columns = take_best(columns, kOut, kB);
  plan.depth = take_best(plan.sums, kA, kB);
  for (const Axes* rest : {&rows, &columns}) plan.loops.insert(plan.loops.end(), rest->begin(), rest->end());
  return plan;
}

/// With operands swapped, the columns of the output become its rows.
bool better_swapped(const Plan& plan) {
  if (plan.rows.size == 1 || plan.columns.size == 1) return plan.columns.size == 1 && plan.rows.size > 1;
  return plan.columns.strides[kOut] != 1 && plan.rows.strides[kOut] == 1;
}

/// A matrix in an operand: `rows` x `columns` entries.
struct Source {
  int64_t rows, columns, row_stride, column_stride;

  bool is_matrix() const { return row_stride == 1 || column_stride == 1 || rows == 1 || columns == 1; }
  /// Whether rows are closer together in memory than columns.
  bool by_rows() const { return column_stride <= row_stride || rows == 1; }
  /// The dense copy that pack() makes.
  template <class C>
  MatrixView<const C> packed(const C* data) const {
    return by_rows() ? MatrixView<const C>{data, columns, 1} : MatrixView<const C>{data, 1, rows};
  }
};

/// Copies (and widens) into dense order, the axis that is closer together in memory innermost.
template <class T>
MTF_CLONES void pack(const T* data, const Source& source, Computed<T>* packed) {
  const bool by_rows = source.by_rows();
  const int64_t outer = by_rows ? source.rows : source.columns,
                inner = by_rows ? source.columns : source.rows;
  const int64_t outer_stride = by_rows ? source.row_stride : source.column_stride;
  const int64_t inner_stride = by_rows ? source.column_stride : source.row_stride;
  for (int64_t i = 0; i < outer; ++i) {
    const T* from = data + i * outer_stride;
    Computed<T>* to = packed + i * inner;
    if (inner_stride == 1) {
      for (int64_t j = 0; j < inner; ++j) to[j] = widen(from[j]);
    } else {
      for (int64_t j = 0; j < inner; ++j) to[j] = widen(from[j * inner_stride]);
    }
  }
}

template <class T>
class EinsumKernel final : public Kernel {
 public:
  explicit EinsumKernel(Plan plan) : plan_(std::move(plan)) {
    swapped_ = better_swapped(plan_);
    if (swapped_) {
      std::swap(plan_.rows, plan_.columns);
      swap_operands(plan_.loops);
      swap_operands(plan_.sums);
      for (Axis* axis : {&plan_.rows, &plan_.columns, &plan_.depth})
        std::swap(axis->strides[kA], axis->strides[kB]);
    }
    constexpr bool widened = !std::is_same_v<T, Computed<T>>;
    pack_a_ = widened || !source_a(plan_.rows.size).is_matrix();
    pack_b_ = widened || !source_b(plan_.columns.size).is_matrix();
    pack_out_ = widened || (plan_.columns.size > 1 && plan_.columns.strides[kOut] != 1);
    cut_tasks();
  }

  int64_t tasks() const override { return loop_groups_ * column_blocks_; }

  size_t scratch_bytes() const override {
    return static_cast<size_t>(packed_b_offset() + (pack_b_ ? plan_.depth.size * widest_block() : 0)) *
           sizeof(Computed<T>);
  }

  int64_t run(const KernelCall& call, int64_t begin, int64_t end) const override {
    int64_t flops = 0;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t group = task / column_blocks_, block = task % column_blocks_;
      const int64_t count = size_of(plan_.loops);
      for_each_offset(plan_.loops, group * loops_per_task_, std::min(count, (group + 1) * loops_per_task_),
                      [&](const Offsets<3>& at) {
                        flops += run_product(call, at, block_begin(block), block_begin(block + 1));
                      });
    }
    return flops;
  }

 private:
  using C = Computed<T>;

  Source source_a(int64_t rows) const {
    return {rows, plan_.depth.size, plan_.rows.strides[kA], plan_.depth.strides[kA]};
  }
  Source source_b(int64_t columns) const {
    return {plan_.depth.size, columns, plan_.depth.strides[kB], plan_.columns.strides[kB]};
  }

  void cut_tasks() {
    const int64_t loops = size_of(plan_.loops);
    const int64_t flops = 2 * plan_.rows.size * plan_.columns.size * plan_.depth.size * size_of(plan_.sums);
    loops_per_task_ = std::clamp<int64_t>(kFlopsPerTask / std::max<int64_t>(1, flops), 1, loops);
    loop_groups_ = (loops + loops_per_task_ - 1) / loops_per_task_;
    const int64_t widths = plan_.columns.size / kColumnsPerTask;
    column_blocks_ = std::clamp<int64_t>(std::min(widths, flops / (4 * kFlopsPerTask)), 1, 64);
    if (pack_a_ || pack_out_) {
      const int64_t row = std::max(plan_.depth.size, widest_block());
      row_block_ =
          std::min(plan_.rows.size, std::max(kPackedElements / row / kRowUnit, int64_t{1}) * kRowUnit);
    } else {
      row_block_ = plan_.rows.size;
    }
  }

  int64_t block_begin(int64_t block) const {
    const int64_t units = (plan_.columns.size + kColumnUnit - 1) / kColumnUnit;
    return std::min(plan_.columns.size, units * block / column_blocks_ * kColumnUnit);
  }
  int64_t widest_block() const {
    return column_blocks_ == 1 ? plan_.columns.size
                               : (plan_.columns.size / column_blocks_ / kColumnUnit + 2) * kColumnUnit;
  }
  int64_t packed_out_offset() const { return pack_a_ ? padded(row_block_ * plan_.depth.size) : 0; }
  int64_t packed_b_offset() const {
    return packed_out_offset() + (pack_out_ ? padded(row_block_ * widest_block()) : 0);
  }
  static int64_t padded(int64_t elements) { return (elements + 15) / 16 * 16; }

  /// Columns [begin, end) of the product at one place of the loops.
  int64_t run_product(const KernelCall& call, const Offsets<3>& at, int64_t begin, int64_t end) const {
    const T* a = call.input<T>(swapped_ ? 1 : 0) + at[kA];
    const T* b = call.input<T>(swapped_ ? 0 : 1) + at[kB] + begin * plan_.columns.strides[kB];
    T* out = call.output<T>(0) + at[kOut] + begin * plan_.columns.strides[kOut];
    C* scratch = reinterpret_cast<C*>(call.scratch);
    const int64_t sums = size_of(plan_.sums), columns = end - begin;
    int64_t flops = 0;
    for (int64_t row = 0; row < plan_.rows.size; row += row_block_) {
      const GemmShape shape{std::min(row_block_, plan_.rows.size - row), columns, plan_.depth.size};
      T* rows_out = out + row * plan_.rows.strides[kOut];
      const MatrixView<C> result = result_view(rows_out, scratch + packed_out_offset(), columns);
      bool first = true;
      for_each_offset(plan_.sums, 0, sums, [&](const Offsets<3>& sum) {
        const T* rows_a = a + sum[kA] + row * plan_.rows.strides[kA];
        const bool packed_before = row > 0 && sums == 1;
        gemm(shape, view(rows_a, source_a(shape.rows), pack_a_, scratch, false),
             view(b + sum[kB], source_b(columns), pack_b_, scratch + packed_b_offset(), packed_before),
             result, !first);
        flops += 2 * shape.rows * shape.columns * shape.depth;
        first = false;
      });
      if (pack_out_) store(result.data, rows_out, shape.rows, columns);
    }
    return flops;
  }

  MatrixView<const C> view(const T* data, const Source& source, bool packs, C* scratch,
                           bool packed_before) const {
    if constexpr (std::is_same_v<T, C>) {
      if (!packs) return {data, source.row_stride, source.column_stride};
    }
    if (!packed_before) pack(data, source, scratch);
    return source.packed<C>(scratch);
  }

  MatrixView<C> result_view(T* out, C* scratch, int64_t columns) const {
    if constexpr (std::is_same_v<T, C>) {
      if (!pack_out_) return {out, plan_.rows.size == 1 ? columns : plan_.rows.strides[kOut], 1};
    }
    return {scratch, columns, 1};
  }

  void store(const C* from, T* out, int64_t rows, int64_t columns) const {
    for (int64_t i = 0; i < rows; ++i) {
      T* to = out + i * plan_.rows.strides[kOut];
      for (int64_t j = 0; j < columns; ++j)
        to[j * plan_.columns.strides[kOut]] = narrow<T>(from[i * columns + j]);
    }
  }

  Plan plan_;
  bool swapped_ = false;
  bool pack_a_ = false, pack_b_ = false, pack_out_ = false;
  int64_t loops_per_task_ = 1, loop_groups_ = 1, column_blocks_ = 1, row_block_ = 1;
};

/// sums[j] += sum over k of a[k][j] * b[k][j].
template <class T>
MTF_CLONES void add_products(const T* a, int64_t a_stride, const T* b, int64_t b_stride, int64_t depth,
                             int64_t n, Computed<T>* sums) {
  for (int64_t k = 0; k < depth; ++k) {
    for (int64_t j = 0; j < n; ++j) sums[j] += widen(a[k * a_stride + j]) * widen(b[k * b_stride + j]);
  }
}

constexpr int64_t kProductsPerTask = 512;

/// Without rows and columns, when the innermost batch axis is contiguous in all operands: that axis is the
/// vector.
template <class T>
std::unique_ptr<Kernel> elementwise_kernel(Plan plan, const Axis& vector) {
  const int64_t blocks = (vector.size + kProductsPerTask - 1) / kProductsPerTask;
  class ElementwiseKernel final : public Kernel {
   public:
    ElementwiseKernel(Plan plan, int64_t size, int64_t blocks)
        : plan_(std::move(plan)), size_(size), blocks_(blocks) {}
    int64_t tasks() const override { return size_of(plan_.loops) * blocks_; }
    size_t scratch_bytes() const override { return kProductsPerTask * sizeof(Computed<T>); }
    int64_t run(const KernelCall& call, int64_t begin, int64_t end) const override {
      auto* sums = reinterpret_cast<Computed<T>*>(call.scratch);
      int64_t flops = 0;
      for (int64_t task = begin; task < end; ++task) {
        const Offsets<3> at = offsets_of(plan_.loops, task / blocks_);
        const int64_t first = task % blocks_ * kProductsPerTask,
                      n = std::min(kProductsPerTask, size_ - first);
        std::fill(sums, sums + n, Computed<T>(0));
        for_each_offset(plan_.sums, 0, size_of(plan_.sums), [&](const Offsets<3>& sum) {
          add_products(call.input<T>(0) + at[kA] + sum[kA] + first, plan_.depth.strides[kA],
                       call.input<T>(1) + at[kB] + sum[kB] + first, plan_.depth.strides[kB], plan_.depth.size,
                       n, sums);
          flops += 2 * plan_.depth.size * n;
        });
        T* out = call.output<T>(0) + at[kOut] + first;
        for (int64_t j = 0; j < n; ++j) out[j] = narrow<T>(sums[j]);
      }
      return flops;
    }

   private:
    Plan plan_;
    int64_t size_, blocks_;
  };
  return std::make_unique<ElementwiseKernel>(std::move(plan), vector.size, blocks);
}

template <class T>
std::unique_ptr<Kernel> einsum_kernel(const KernelContext& context) {
  Plan plan = make_plan(context);
  if (plan.rows.size == 1 && plan.columns.size == 1 && !plan.loops.empty()) {
    const Axis inner = plan.loops.back();
    if (inner.size >= 8 && inner.strides == Offsets<3>{1, 1, 1}) {
      plan.loops.pop_back();
      return elementwise_kernel<T>(std::move(plan), inner);
    }
  }
  return std::make_unique<EinsumKernel<T>>(std::move(plan));
}

const KernelRegistration einsum_f32("einsum", {DType::kFloat32}, einsum_kernel<float>);
const KernelRegistration einsum_f64("einsum", {DType::kFloat64}, einsum_kernel<double>);
const KernelRegistration einsum_bf16("einsum", {DType::kBFloat16}, einsum_kernel<BFloat16>);

}  // namespace
}  // namespace mtf
