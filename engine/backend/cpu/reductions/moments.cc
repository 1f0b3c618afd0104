// Sums of y and of x * y in float64. A task sums all rows of some columns, or all entries of some rows, so that the bits
// depend neither on threads nor on how the kept dimensions are cut.
#include "engine/ops/moments.h"

#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/backend/element.h"
#include "engine/backend/strided.h"
#include "engine/base/dispatch.h"

namespace mtf {
namespace {

/// Columns that a task sums, or lanes in which the entries of a row are summed: as many as stay in registers.
constexpr int64_t kColumns = 32;

struct Sums {
  double y[kColumns] = {}, product[kColumns] = {};
};

/// Adds entries of `n` columns (kColumns, where `kWhole`) of a number of rows.
template <class T, bool kWhole>
MTF_INLINE void add_some(const T* x, const T* y, int64_t rows, int64_t stride, int64_t n, Sums* sums) {
  Sums local = *sums;
  const int64_t columns = kWhole ? kColumns : n;
  for (int64_t i = 0; i < rows; ++i, x += stride, y += stride) {
    for (int64_t j = 0; j < columns; ++j) {
      const double value = static_cast<double>(widen(y[j]));
      local.y[j] += value;
      local.product[j] += static_cast<double>(widen(x[j])) * value;
    }
  }
  *sums = local;
}

template <class T>
MTF_INLINE void add_columns(const T* x, const T* y, int64_t rows, int64_t stride, int64_t n, Sums* sums) {
  n == kColumns ? add_some<T, true>(x, y, rows, stride, n, sums)
                : add_some<T, false>(x, y, rows, stride, n, sums);
}

/// Adds entry i of a row to lane i % kColumns.
template <class T>
MTF_INLINE void add_lanes(const T* x, const T* y, int64_t n, Sums* sums) {
  const int64_t whole = n / kColumns;
  add_some<T, true>(x, y, whole, kColumns, kColumns, sums);
  add_some<T, false>(x + whole * kColumns, y + whole * kColumns, 1, 0, n - whole * kColumns, sums);
}

template <class T>
std::unique_ptr<Kernel> moments_kernel(const KernelContext& context) {
  const LocalTensor &x = context.inputs[0], &out = context.outputs[0];
  // Strides in x and in the outputs; not joined where that would change the order of the sums.
  StridedAxes<2> kept, summed;
  const int last = x.global.rank() - 1;
  bool last_is_kept = false;
  for (int a = 0; a <= last; ++a) {
    const auto axis = out.global.find(x.global[a].name);
    if (axis) {
      kept.push_back({x.local[a].size, {x.strides[a], out.strides[*axis]}});
      last_is_kept = a == last;
    } else {
      summed.push_back({x.local[a].size, {x.strides[a], 0}});
    }
  }
  if (last_is_kept) {
    // Columns: the last dimensions. Each task has a few of them and all rows.
    kept = joined(kept);
    StridedAxis<2> columns;
    if (!kept.empty() && kept.back().strides[0] == 1) {
      columns = kept.back();
      kept.pop_back();
    }
    const int64_t parts = (columns.size + kColumns - 1) / kColumns;
    StridedAxes<2> outer = joined(summed);
    StridedAxis<2> rows;
    if (!outer.empty()) {
      rows = outer.back();
      outer.pop_back();
    }
    return make_kernel(size_of(kept) * parts, 1, [=](const KernelCall& call, int64_t begin, int64_t end) {
      for (int64_t unit = begin; unit < end; ++unit) {
        const Offsets<2> at = offsets_of(kept, unit / parts);
        const int64_t column = unit % parts * kColumns, n = std::min(kColumns, columns.size - column);
        Sums sums;
        const T *px = call.input<T>(0) + at[0] + column, *py = call.input<T>(1) + at[0] + column;
        for_each_offset(outer, 0, size_of(outer), [&](const Offsets<2>& from) {
          dispatched<add_columns<T>>(px + from[0], py + from[0], rows.size, rows.strides[0], n, &sums);
        });
        for (int64_t j = 0; j < n; ++j) {
          const int64_t to = at[1] + (column + j) * columns.strides[1];
          call.output<double>(0)[to] = sums.y[j];
          call.output<double>(1)[to] = sums.product[j];
        }
      }
    });
  }
  StridedAxis<2> row{1, {1, 0}};
  if (!summed.empty()) {
    row = summed.back();
    summed.pop_back();
  }
  return make_kernel(size_of(kept), std::max<int64_t>(1, kElementsPerTask / (size_of(summed) * row.size)),
                     [=](const KernelCall& call, int64_t begin, int64_t end) {
                       for (int64_t unit = begin; unit < end; ++unit) {
                         const Offsets<2> at = offsets_of(kept, unit);
                         Sums sums;
                         for_each_offset(summed, 0, size_of(summed), [&](const Offsets<2>& line) {
                           const int64_t from = at[0] + line[0];
                           dispatched<add_lanes<T>>(call.input<T>(0) + from, call.input<T>(1) + from,
                                                    row.size, &sums);
                         });
                         for (int64_t j = 1; j < kColumns; ++j) {
                           sums.y[0] += sums.y[j];
                           sums.product[0] += sums.product[j];
                         }
                         call.output<double>(0)[at[1]] = sums.y[0];
                         call.output<double>(1)[at[1]] = sums.product[0];
                       }
                     });
}

const KernelRegistration moments_f32("moments", {DType::kFloat32}, moments_kernel<float>);
const KernelRegistration moments_bf16("moments", {DType::kBFloat16}, moments_kernel<BFloat16>);
const KernelRegistration moments_f64("moments", {DType::kFloat64}, moments_kernel<double>);

}  // namespace
}  // namespace mtf
