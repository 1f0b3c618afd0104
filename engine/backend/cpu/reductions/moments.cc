// Sums of y and of x * y in float64. A task sums all rows of some columns, or all entries of some rows, so that the bits
// depend neither on threads nor on how the kept dimensions are cut.
#include "engine/ops/moments.h"

#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/backend/element.h"
#include "engine/backend/strided.h"
#include "engine/base/dispatch.h"

namespace mtf {
namespace {

/// Columns that a task sums, and lanes in which the entries of a row are summed.
constexpr int64_t kColumns = 32, kLanes = 32;

template <class T>
MTF_INLINE void add_columns(const T* x, const T* y, int64_t n, double* sums, double* products) {
  for (int64_t j = 0; j < n; ++j) {
    const double value = static_cast<double>(widen(y[j]));
    sums[j] += value;
    products[j] += static_cast<double>(widen(x[j])) * value;
  }
}

/// Adds entry i of a row to lane i % kLanes.
template <class T>
MTF_INLINE void add_lanes(const T* x, const T* y, int64_t n, double* sums, double* products) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) add_columns(x + i, y + i, kLanes, sums, products);
  add_columns(x + i, y + i, n - i, sums, products);
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
    // Columns: the last dimension. Each task has a few of them and all rows.
    const StridedAxis<2> columns = kept.back();
    kept.pop_back();
    const int64_t parts = (columns.size + kColumns - 1) / kColumns;
    return make_kernel(size_of(kept) * parts, 1, [=](const KernelCall& call, int64_t begin, int64_t end) {
      for (int64_t unit = begin; unit < end; ++unit) {
        const Offsets<2> at = offsets_of(kept, unit / parts);
        const int64_t column = unit % parts * kColumns, n = std::min(kColumns, columns.size - column);
        double sums[kColumns] = {}, products[kColumns] = {};
        const T *px = call.input<T>(0) + at[0] + column, *py = call.input<T>(1) + at[0] + column;
        for_each_offset(summed, 0, size_of(summed), [&](const Offsets<2>& row) {
          dispatched<add_columns<T>>(px + row[0], py + row[0], n, sums, products);
        });
        for (int64_t j = 0; j < n; ++j) {
          const int64_t to = at[1] + (column + j) * columns.strides[1];
          call.output<double>(0)[to] = sums[j];
          call.output<double>(1)[to] = products[j];
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
                         double sums[kLanes] = {}, products[kLanes] = {};
                         for_each_offset(summed, 0, size_of(summed), [&](const Offsets<2>& line) {
                           const int64_t from = at[0] + line[0];
                           dispatched<add_lanes<T>>(call.input<T>(0) + from, call.input<T>(1) + from,
                                                    row.size, sums, products);
                         });
                         for (int64_t j = 1; j < kLanes; ++j) {
                           sums[0] += sums[j];
                           products[0] += products[j];
                         }
                         call.output<double>(0)[at[1]] = sums[0];
                         call.output<double>(1)[at[1]] = products[0];
                       }
                     });
}

const KernelRegistration moments_f32("moments", {DType::kFloat32}, moments_kernel<float>);
const KernelRegistration moments_bf16("moments", {DType::kBFloat16}, moments_kernel<BFloat16>);
const KernelRegistration moments_f64("moments", {DType::kFloat64}, moments_kernel<double>);

}  // namespace
}  // namespace mtf
