// Gradient of gather: each row of the table receives the sum of dy over the places whose id selects it.
//
// A task owns a block of table rows and of columns, so no two tasks write the same element. It sorts the
// places by row (a stable counting sort), then adds those of each row in the order of the ids. The result
// does not depend on threads, each row is written once, and bfloat16 is rounded once. The time is bound by
// reading dy.
#include <algorithm>

#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/backend/element.h"
#include "engine/backend/strided.h"
#include "engine/base/dispatch.h"
#include "engine/ops/indexing.h"

namespace mtf {
namespace {

template <class T>
MTF_INLINE void add_run(Computed<T>* sum, const T* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) sum[i] += widen(x[i]);
}

/// The number of row blocks: few enough that scanning all ids for each of them costs little compared with the
/// additions.
constexpr int64_t kRowBlocks = 32;
/// The elements of a row that one task adds, if there are too few rows to share out.
constexpr int64_t kColumns = 128;

/// The dimensions that table, dy and ids share, and the partition of the work.
struct GatherGradientPlan {
  StridedAxes<3> batch;   ///< dimensions of both table and ids: strides of table, dy, ids
  StridedAxes<2> places;  ///< dimensions of ids only: strides of dy, ids
  /// Dimensions of the table only, except the last run: strides of table and dy.
  StridedAxes<2> columns;
  int64_t run = 1;  ///< columns that are contiguous in table and dy
  int64_t rows = 0, row_stride = 0;
  int axis = 0;  ///< axis of the table that the ids index
  int64_t rows_per_block = 0, row_blocks = 0, columns_per_block = 0, column_blocks = 0;

  explicit GatherGradientPlan(const KernelContext& context) {
    const auto& operation = static_cast<const GatherGradient&>(context.operation);
    const LocalTensor &dy = context.inputs[0], &ids = context.inputs[1], &table = context.outputs[0];
    const auto stride = [](const LocalTensor& t, const std::string& name) {
      const auto axis = t.local.find(name);
      return axis ? t.local.strides()[*axis] : 0;
    };
    for (const Dimension& d : table.local) {
      const int64_t in_table = stride(table, d.name), in_dy = stride(dy, d.name);
      if (d.name == operation.dimension) {
        rows = d.size;
        row_stride = in_table;
      } else if (ids.local.contains(d.name)) {
        batch.push_back({d.size, {in_table, in_dy, stride(ids, d.name)}});
      } else {
        columns.push_back({d.size, {in_table, in_dy}});
      }
    }
    for (const Dimension& d : ids.local) {
      if (!table.local.contains(d.name))
        places.push_back({d.size, {stride(dy, d.name), stride(ids, d.name)}});
    }
    axis = *table.local.find(operation.dimension);
    batch = joined(batch);
    places = joined(places);
    columns = joined(columns);
    if (!columns.empty() && columns.back().strides == Offsets<2>{1, 1}) {
      run = columns.back().size;
      columns.pop_back();
    }
    const int64_t width = run * size_of(columns);
    rows_per_block =
        std::min(rows, std::max((rows + kRowBlocks - 1) / kRowBlocks, kElementsPerTask / width + 1));
    row_blocks = (rows + rows_per_block - 1) / rows_per_block;
    columns_per_block = row_blocks * size_of(batch) < kRowBlocks ? std::min(run, kColumns) : run;
    column_blocks = (run + columns_per_block - 1) / columns_per_block;
  }

  int64_t tasks() const { return size_of(batch) * row_blocks * column_blocks; }
};

/// Adds elements of type T to a table of type Out, which is T or float32.
template <class T, class Out>
class GatherGradientKernel final : public Kernel {
 public:
  explicit GatherGradientKernel(const KernelContext& context) : plan_(context) {}

  int64_t tasks() const override { return plan_.tasks(); }
  /// Scratch holds the sums of one run, the ends of the rows among the sorted places, and the offsets of the
  /// sorted places.
  size_t scratch_bytes() const override {
    return sums_bytes() +
           sizeof(int64_t) * static_cast<size_t>(plan_.rows_per_block + 1 + size_of(plan_.places));
  }

  int64_t run(const KernelCall& call, int64_t begin, int64_t end) const override {
    for (int64_t task = begin; task < end; ++task) run_task(call, task);
    return 0;
  }

 private:
  size_t sums_bytes() const {
    return (sizeof(Computed<T>) * static_cast<size_t>(plan_.columns_per_block) + 63) / 64 * 64;
  }

  void run_task(const KernelCall& call, int64_t task) const {
    const int64_t column = task % plan_.column_blocks * plan_.columns_per_block;
    task /= plan_.column_blocks;
    const int64_t row = task % plan_.row_blocks * plan_.rows_per_block;
    const int64_t rows = std::min(plan_.rows_per_block, plan_.rows - row);
    const int64_t width = std::min(plan_.columns_per_block, plan_.run - column);
    const Offsets<3> at = offsets_of(plan_.batch, task / plan_.row_blocks);

    auto* ends = reinterpret_cast<int64_t*>(call.scratch + sums_bytes());
    int64_t* places = ends + plan_.rows_per_block + 1;
    sort_places(call.input<int32_t>(1) + at[2], call.outputs[0].begin[plan_.axis] + row, rows, ends, places);
    const T* dy = call.input<T>(0) + at[1] + column;
    Out* table = call.output<Out>(0) + at[0] + row * plan_.row_stride + column;
    for (int64_t r = 0; r < rows; ++r) {
      const std::span<const int64_t> of_row(places + (r == 0 ? 0 : ends[r - 1]), places + ends[r]);
      add_places(dy, of_row, width, reinterpret_cast<Computed<T>*>(call.scratch),
                 table + r * plan_.row_stride);
    }
  }

  /// Computes the offsets in dy of the places whose id is first .. first + rows - 1, ordered by id, then by
  /// place. ends[r] is the end of those of id first + r.
  void sort_places(const int32_t* ids, int64_t first, int64_t rows, int64_t* ends, int64_t* places) const {
    std::fill(ends, ends + rows + 1, 0);
    const int64_t all = size_of(plan_.places);
    for_each_offset(plan_.places, 0, all, [&](const Offsets<2>& at) {
      const int64_t r = ids[at[1]] - first;
      if (r >= 0 && r < rows) ++ends[r + 1];
    });
    for (int64_t r = 0; r < rows; ++r) ends[r + 1] += ends[r];
    for_each_offset(plan_.places, 0, all, [&](const Offsets<2>& at) {
      const int64_t r = ids[at[1]] - first;
      if (r >= 0 && r < rows) places[ends[r]++] = at[0];
    });
  }

  void add_places(const T* dy, std::span<const int64_t> places, int64_t width, Computed<T>* sums,
                  Out* table) const {
    for_each_offset(plan_.columns, 0, size_of(plan_.columns), [&](const Offsets<2>& at) {
      Out* row = table + at[0];
      if (places.empty()) return (void)std::fill(row, row + width, Out{});
      std::fill(sums, sums + width, Computed<T>{});
      for (int64_t place : places) dispatched<add_run<T>>(sums, dy + place + at[1], width);
      for (int64_t i = 0; i < width; ++i) row[i] = narrow<Out>(sums[i]);
    });
  }

  GatherGradientPlan plan_;
};

template <class T>
std::unique_ptr<Kernel> gather_gradient_kernel(const KernelContext& context) {
  if (context.outputs[0].dtype == DTypeOf<Computed<T>>::value)
    return std::make_unique<GatherGradientKernel<T, Computed<T>>>(context);
  return std::make_unique<GatherGradientKernel<T, T>>(context);
}

const KernelRegistration f32("gather_gradient", {DType::kFloat32}, gather_gradient_kernel<float>);
const KernelRegistration bf16("gather_gradient", {DType::kBFloat16}, gather_gradient_kernel<BFloat16>);
const KernelRegistration f64("gather_gradient", {DType::kFloat64}, gather_gradient_kernel<double>);
const KernelRegistration i32("gather_gradient", {DType::kInt32}, gather_gradient_kernel<int32_t>);

}  // namespace
}  // namespace mtf
