// Kernels of engine/ops/reduce.h. The input is read in its memory order. If its fast axis is reduced, every
// output element reduces dense rows; otherwise rows are added column by column. The order of additions is a
// function of the local shape alone: float32 blocks with a fixed number of lanes, whose sums are added in
// float64.
#include "engine/ops/reduce.h"

#include "engine/backend/broadcast_axes.h"
#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/backend/element.h"
#include "engine/backend/reductions.h"
#include "engine/backend/squares.h"
#include "engine/backend/visit_type.h"
#include "engine/base/dispatch.h"

namespace mtf {
namespace {

constexpr int64_t kLanes = 32;  // independent accumulators of a dense row: four AVX-512 registers of floats
constexpr int64_t kRowBlock = kSquaresBlock;  // elements of a row between two carries into the total
constexpr int64_t kColumns = 256;             // columns that one task reduces
constexpr int64_t kColumnBlock = 16;          // rows between two carries into the totals

/// Reduces x[0 .. n), at most kRowBlock elements.
template <class R, class T>
MTF_INLINE typename R::Lane reduce_block(const T* x, int64_t n) {
  using Lane = typename R::Lane;
  const int64_t whole = n / kLanes * kLanes;
  Lane lanes[kLanes];
  for (int64_t l = 0; l < kLanes; ++l) lanes[l] = R::kIdentity;
  for (int64_t i = 0; i < whole; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) lanes[l] = R::combine(lanes[l], R::load(x[i + l]));
  }
  for (int64_t i = whole; i < n; ++i) lanes[i - whole] = R::combine(lanes[i - whole], R::load(x[i]));
  for (int64_t width = kLanes / 2; width > 0; width /= 2) {
    for (int64_t l = 0; l < width; ++l) lanes[l] = R::combine(lanes[l], lanes[l + width]);
  }
  return lanes[0];
}

/// Reduces x[0 .. n), with `block` for each block.
template <class R, class T, class Block>
MTF_INLINE typename R::Total reduce_row(const T* x, int64_t n, const Block& block) {
  using Total = typename R::Total;
  Total total = R::kIdentity;
  if (n < kLanes) {
    for (int64_t i = 0; i < n; ++i) total = R::combine(total, static_cast<Total>(R::load(x[i])));
    return total;
  }
  for (int64_t begin = 0; begin < n; begin += kRowBlock)
    total = R::combine(total, static_cast<Total>(block(x + begin, std::min(kRowBlock, n - begin))));
  return total;
}

template <class R, class T>
MTF_INLINE typename R::Total reduce_whole_row(const T* x, int64_t n) {
  return reduce_row<R>(x, n, [](const T* block, int64_t size) { return reduce_block<R>(block, size); });
}

/// A separate function, so that the compiler does not mix the additions of a block with others.
template <class T>
double squares_of_block(const T* x, int64_t n) {
  return dispatched<reduce_block<reductions::SumOfSquares<T>, T>>(x, n);
}

template <class T>
double squares_of_row(const T* x, int64_t n) {
  return reduce_row<reductions::SumOfSquares<T>>(x, n, squares_of_block<T>);
}

/// Combines x[i] into lanes[i].
template <class R, class T>
MTF_INLINE void reduce_columns(const T* x, typename R::Lane* lanes, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) lanes[i] = R::combine(lanes[i], R::load(x[i]));
}

/// The two loops for an element type, with versions for the floating-point types of training.
template <class R, class T>
struct Loops {
  static typename R::Total row(const T* x, int64_t n) { return reduce_whole_row<R>(x, n); }
  static void columns(const T* x, typename R::Lane* lanes, int64_t n) { reduce_columns<R>(x, lanes, n); }
};
template <class R, class T>
requires std::is_same_v < Computed<T>,
float > struct Loops<R, T> {
  static typename R::Total row(const T* x, int64_t n) { return dispatched<reduce_whole_row<R, T>>(x, n); }
  static void columns(const T* x, typename R::Lane* lanes, int64_t n) {
    dispatched<reduce_columns<R, T>>(x, lanes, n);
  }
};

template <class T>
struct Loops<reductions::SumOfSquares<T>, T> {
  static double row(const T* x, int64_t n) { return squares_of_row(x, n); }
  static void columns(const T* x, double* lanes, int64_t n) {
    reduce_columns<reductions::SumOfSquares<T>>(x, lanes, n);
  }
};

/// The axes of the input in its memory order, without the fast one: strides[0] of x, strides[1] of y.
struct Axes {
  StridedAxes<2> kept;     ///< each entry is one output element, or a row of them
  StridedAxes<2> reduced;  ///< strides[1] is 0
  StridedAxis<2> fast;
  bool fast_is_reduced = true;
};

Axes axes_of(const KernelContext& context) {
  const LocalTensor &x = context.inputs[0], &y = context.outputs[0];
  StridedAxes<2> all;
  for (int axis : memory_order(x)) {
    all.push_back({x.local[axis].size, {x.strides[axis], stride_of(y, x.local[axis].name)}});
  }
  all = joined(all);
  Axes axes;
  if (all.empty()) return axes;
  axes.fast = all.back();
  axes.fast_is_reduced = all.back().strides[1] == 0;
  all.pop_back();
  for (const StridedAxis<2>& axis : all) (axis.strides[1] == 0 ? axes.reduced : axes.kept).push_back(axis);
  return axes;
}

/// A kernel for a reduced fast axis: units are output elements.
template <class R, class T, class Y>
std::unique_ptr<Kernel> row_kernel(const Axes& axes) {
  const int64_t work = size_of(axes.reduced) * axes.fast.size, rows = size_of(axes.reduced);
  return make_kernel(size_of(axes.kept), std::max<int64_t>(1, kElementsPerTask / work),
                     [axes, rows](const KernelCall& call, int64_t begin, int64_t end) {
                       for_each_offset(axes.kept, begin, end, [&](const Offsets<2>& at) {
                         typename R::Total total = R::kIdentity;
                         const T* x = call.input<T>(0) + at[0];
                         for_each_offset(axes.reduced, 0, rows, [&](const Offsets<2>& row) {
                           total = R::combine(total, Loops<R, T>::row(x + row[0], axes.fast.size));
                         });
                         call.output<Y>(0)[at[1]] = narrow<Y>(total);
                       });
                     });
}

/// A kernel for a kept fast axis: units are groups of kColumns columns.
template <class R, class T, class Y>
std::unique_ptr<Kernel> column_kernel(const Axes& axes) {
  const int64_t groups = (axes.fast.size + kColumns - 1) / kColumns, rows = size_of(axes.reduced);
  const int64_t work = rows * std::min(axes.fast.size, kColumns);
  const auto reduce_group = [axes, rows](const T* x, Y* y, int64_t n) {
    typename R::Total totals[kColumns];
    std::fill(totals, totals + n, R::kIdentity);
    for (int64_t begin = 0; begin < rows; begin += kColumnBlock) {
      typename R::Lane lanes[kColumns];
      std::fill(lanes, lanes + n, R::kIdentity);
      for_each_offset(axes.reduced, begin, std::min(rows, begin + kColumnBlock),
                      [&](const Offsets<2>& row) { Loops<R, T>::columns(x + row[0], lanes, n); });
      for (int64_t i = 0; i < n; ++i)
        totals[i] = R::combine(totals[i], static_cast<typename R::Total>(lanes[i]));
    }
    for (int64_t i = 0; i < n; ++i) y[i * axes.fast.strides[1]] = narrow<Y>(totals[i]);
  };
  return make_kernel(size_of(axes.kept) * groups, std::max<int64_t>(1, kElementsPerTask / work),
                     [axes, groups, reduce_group](const KernelCall& call, int64_t begin, int64_t end) {
                       for (int64_t unit = begin; unit < end; ++unit) {
                         const Offsets<2> at = offsets_of(axes.kept, unit / groups);
                         const int64_t column = unit % groups * kColumns;
                         reduce_group(call.input<T>(0) + at[0] + column,
                                      call.output<Y>(0) + at[1] + column * axes.fast.strides[1],
                                      std::min(kColumns, axes.fast.size - column));
                       }
                     });
}

template <class R, class T, class Y = T>
std::unique_ptr<Kernel> reduce_kernel(const KernelContext& context) {
  const Axes axes = axes_of(context);
  return axes.fast_is_reduced ? row_kernel<R, T, Y>(axes) : column_kernel<R, T, Y>(axes);
}

template <template <class> class R>
std::unique_ptr<Kernel> number_kernel(const KernelContext& context) {
  return visit_type<float, BFloat16, double, int32_t, int64_t>(
      context.inputs[0].dtype,
      [&]<class T>(std::type_identity<T>) { return reduce_kernel<R<T>, T>(context); });
}

std::unique_ptr<Kernel> sum_kernel(const KernelContext& context) {
  const bool widens =
      context.inputs[0].dtype == DType::kBFloat16 && context.outputs[0].dtype == DType::kFloat32;
  return widens ? reduce_kernel<reductions::Sum<BFloat16>, BFloat16, float>(context)
                : number_kernel<reductions::Sum>(context);
}

std::unique_ptr<Kernel> sum_of_squares_kernel(const KernelContext& context) {
  return visit_floating_type(context.inputs[0].dtype, [&]<class T>(std::type_identity<T>) {
    return reduce_kernel<reductions::SumOfSquares<T>, T, double>(context);
  });
}

const KernelRegistration registrations[] = {
    {"reduce_sum", kNumberTypes, sum_kernel},
    {"reduce_max", kNumberTypes, number_kernel<reductions::Max>},
    {"reduce_min", kNumberTypes, number_kernel<reductions::Min>},
    {"reduce_all", {DType::kBool}, reduce_kernel<reductions::All<bool>, bool>},
    {"reduce_any", {DType::kBool}, reduce_kernel<reductions::Any<bool>, bool>},
    {"sum_of_squares", kFloatingTypes, sum_of_squares_kernel},
};

}  // namespace

double sum_of_squares(const std::byte* x, DType dtype, int64_t count) {
  return visit_floating_type(dtype, [&]<class T>(std::type_identity<T>) {
    return squares_of_row(reinterpret_cast<const T*>(x), count);
  });
}

void squares_of_blocks(const std::byte* x, DType dtype, int64_t count, std::span<double> sums) {
  visit_floating_type(dtype, [&]<class T>(std::type_identity<T>) {
    for (size_t block = 0; block < sums.size(); ++block) {
      const int64_t begin = static_cast<int64_t>(block) * kSquaresBlock;
      sums[block] =
          squares_of_block(reinterpret_cast<const T*>(x) + begin, std::min(kSquaresBlock, count - begin));
    }
  });
}

}  // namespace mtf
