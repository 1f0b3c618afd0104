// Reductions over any axes (engine/backend/reductions.h). The input is read in its memory order. If its fast
// axis is reduced, groups of threads reduce rows; if it is kept, threads reduce columns side by side. If
// there are few outputs, long rows and columns are divided among groups, whose results a second launch
// combines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/backend/cuda/device/device_kernel.h"
#include "engine/backend/cuda/device/thread_groups.h"
#include "engine/backend/element.h"
#include "engine/backend/reductions.h"

namespace mtf::cuda {

/// The reduction that combines the totals of reduction R.
template <class R>
struct OfTotals {
  using Type = R;
};
template <class T>
struct OfTotals<reductions::Sum<T>> {
  using Type = reductions::Sum<typename reductions::Sum<T>::Total>;
};
template <class T>
struct OfTotals<reductions::SumOfSquares<T>> {
  using Type = reductions::Sum<double>;
};
template <class T>
struct OfTotals<reductions::Max<T>> {
  using Type = reductions::Max<Computed<T>>;
};
template <class T>
struct OfTotals<reductions::Min<T>> {
  using Type = reductions::Min<Computed<T>>;
};

/// Stores results in the output's type.
template <class Total>
struct ReducedOutput {
  std::byte* data;
  DType dtype;

  MTF_DEVICE void store(int64_t at, Total value) const {
    if constexpr (std::is_floating_point_v<Total>) {
      if (dtype == DType::kFloat32) return store_as<float>(at, value);
      if (dtype == DType::kBFloat16) return store_as<BFloat16>(at, value);
    } else {
      if (dtype == DType::kInt32) return store_as<int32_t>(at, value);
    }
    store_as<Total>(at, value);
  }

 private:
  template <class Y>
  MTF_DEVICE void store_as(int64_t at, Total value) const {
    reinterpret_cast<Y*>(data)[at] = narrow<Y>(value);
  }
};

/// The operands of both kinds of kernels.
template <class R, class T>
struct ReductionOperands {
  const T* x;
  ReducedOutput<typename R::Total> y;
  typename R::Total* partials;  ///< [part, output]; null if there is one part
  Strided<2> kept;              ///< outputs: offsets of the first element in x, and of the result in y
  Strided<1> reduced;           ///< elements of an output
  ThreadGroups groups;
};

/// Reduces rows of x, with a group for each output or for a part of its elements.
template <class R, class T>
struct ReducedRows : ReductionOperands<R, T> {
  static constexpr bool kBatched = std::is_same_v<R, reductions::SumOfSquares<T>>;
  static constexpr int kMaxThreads = 512;
  using Total = typename R::Total;
  using Lane = typename R::Lane;
  /// How elements are stored: contiguous; in packs that begin at multiples of a pack; or otherwise.
  enum class Elements { kRun, kPacks, kSingle };

  Elements elements;

  MTF_DEVICE void operator()(const Block& block) const {
    constexpr int N = kPack<T>;
    const ThreadGroup group(block, this->groups);
    const Offsets<2> at = this->kept.at(group.row());
    const int64_t begin = group.begin();
    const int count = group.count();
    const auto place = [&](int i) { return this->x + at[0] + this->reduced.at(begin + i)[0]; };
    int head = 0;
    if (elements == Elements::kRun) head = elements_before_pack<N>(at[0] + begin, count);
    if (elements == Elements::kSingle) head = count;
    Lane lanes[N];
    for (Lane& lane : lanes) lane = R::kIdentity;
    Total total = R::kIdentity;
    visit_packs<N>(
        count, head, group.rank(), group.size(),
        [&](int i) { lanes[0] = R::combine(lanes[0], R::load(*place(i))); },
        [&](int i) { return load<N>(place(i)); },
        [&](const Pack<T, N>& pack) {
          for (int n = 0; n < N; ++n) lanes[n] = R::combine(lanes[n], R::load(pack[n]));
        },
        [&] {
          for (int width = N / 2; width > 0; width /= 2) {
            for (int n = 0; n < width; ++n) lanes[n] = R::combine(lanes[n], lanes[n + width]);
          }
          total = R::combine(total, static_cast<Total>(lanes[0]));
          for (Lane& lane : lanes) lane = R::kIdentity;
        });
    const auto combine = [](Total a, Total b) { return R::combine(a, b); };
    total = group.reduce_adjacent(block, total, Total(R::kIdentity), combine);
    if (!group.leads()) return;
    if (this->partials != nullptr) {
      this->partials[group.part() * this->groups.rows + group.row()] = total;
    } else {
      this->y.store(at[1], total);
    }
  }
};

/// Reduces columns of x, with a group for N adjacent outputs or for a part of their elements. With N = 1 it
/// also reduces rows, one element at a time.
template <class R, class T, int N>
struct ReducedColumns : ReductionOperands<R, T> {
  static constexpr bool kBatched = std::is_same_v<R, reductions::Sum<double>> && N == 1;
  static constexpr int kMaxThreads = 512;
  static constexpr int kAtOnce = N > 4 ? 2 : 4, kToCarry = 32 / kAtOnce;
  using Total = typename R::Total;
  using Lane = typename R::Lane;
  MTF_DEVICE void operator()(const Block& block) const {
    const ThreadGroup group(block, this->groups);
    const Offsets<2> at = this->kept.at(group.row() * N);
    const int count = group.count(), size = group.size();
    Total totals[N];
    for (Total& total : totals) total = R::kIdentity;
    for (int i = group.rank(); i < count;) {
      Lane lanes[N];
      for (Lane& lane : lanes) lane = R::kIdentity;
      MTF_UNROLL(1)
      for (int k = 0; k < kToCarry && i < count; ++k, i += kAtOnce * size) add(lanes, at[0], group, i, count);
      for (int n = 0; n < N; ++n) totals[n] = R::combine(totals[n], static_cast<Total>(lanes[n]));
    }
    combine(block, group, totals);
    if (!group.leads()) return;
    for (int n = 0; n < N; ++n) {
      if (this->partials != nullptr) {
        this->partials[(group.part() * this->groups.rows + group.row()) * N + n] = totals[n];
      } else {
        this->y.store(at[1] + n * this->kept.inner_stride(1), totals[n]);
      }
    }
  }

 private:
  /// Adds the elements i, i + size, ..., at most kAtOnce of them.
  MTF_DEVICE void add(Lane (&lanes)[N], int64_t offset, const ThreadGroup& group, int i, int count) const {
    Pack<T, N> packs[kAtOnce];
    MTF_UNROLL(kAtOnce)
    for (int k = 0; k < kAtOnce; ++k) {
      const int at = i + k * group.size();
      if (at < count) packs[k] = load<N>(this->x + offset + this->reduced.at(group.begin() + at)[0]);
    }
    MTF_UNROLL(kAtOnce)
    for (int k = 0; k < kAtOnce; ++k) {
      if (i + k * group.size() < count) {
        for (int n = 0; n < N; ++n) lanes[n] = R::combine(lanes[n], R::load(packs[k][n]));
      }
    }
  }

  MTF_DEVICE static void combine(const Block& block, const ThreadGroup& group, Total (&totals)[N]) {
    const auto both = [](Total a, Total b) { return R::combine(a, b); };
    if constexpr (N == 1) {
      totals[0] = group.reduce(block, totals[0], Total(R::kIdentity), both);
    } else {
      group.reduce_interleaved(block, totals, both);
    }
  }
};

/// The order in which the input of a reduction is read.
struct ReductionWalk {
  Strided<2> kept;
  Strided<1> reduced;
  Strided<2> dense;  ///< the outputs in the same order, if x is replaced by an array of partial results
  bool fast_is_reduced;
};
ReductionWalk walk_of(const KernelContext& context);

/// Combines the kernel of the first launch (without pointers) with that of the second one, which combines the
/// parts.
template <class R, class T, class First>
std::unique_ptr<Kernel> reduction_kernel(const KernelContext& context, Device& device,
                                         const ReductionWalk& walk, const First& first, size_t state_bytes) {
  using Total = typename R::Total;
  using Second = ReducedColumns<typename OfTotals<R>::Type, Total, 1>;
  const int64_t parts = first.groups.parts, outputs = walk.dense.size();
  const size_t scratch = parts == 1 ? 0 : static_cast<size_t>(parts * outputs) * sizeof(Total);
  Second second{};
  if (parts > 1) {
    second.kept = walk.dense;
    second.reduced = Strided<1>(StridedAxes<1>{{parts, {outputs}}});
    second.groups = interleaved_groups(outputs, parts, outputs);
  }
  return make_device_kernel(
      device,
      [first, second, scratch, state_bytes, dtype = context.outputs[0].dtype](const Launcher& launch,
                                                                              const KernelCall& call) {
        auto begin = first;
        begin.x = call.input<T>(0);
        begin.y = {call.output<std::byte>(0), dtype};
        begin.partials = scratch == 0 ? nullptr : reinterpret_cast<Total*>(call.scratch);
        launch(begin.groups.shape(state_bytes), begin);
        if (scratch == 0) return;
        auto end = second;
        end.x = begin.partials;
        end.y = begin.y;
        launch(end.groups.shape(sizeof(Total)), end);
      },
      scratch);
}

template <class R, class T>
std::unique_ptr<Kernel> row_reduction(const KernelContext& context, Device& device) {
  constexpr int N = kPack<T>;
  using Rows = ReducedRows<R, T>;
  const ReductionWalk walk = walk_of(context);
  Rows rows{};
  rows.kept = walk.kept;
  rows.reduced = walk.reduced;
  rows.groups = divided(contiguous_groups(walk.kept.size(), walk.reduced.size(), N), N);
  // x is dense, so the strides of other axes are multiples of the length of the fast run.
  rows.elements = walk.reduced.rank() <= 1      ? Rows::Elements::kRun
                  : walk.reduced.in_packs(0, N) ? Rows::Elements::kPacks
                                                : Rows::Elements::kSingle;
  return reduction_kernel<R, T>(context, device, walk, rows, sizeof(typename R::Total));
}

template <class R, class T, int N>
std::unique_ptr<Kernel> column_reduction(const KernelContext& context, Device& device) {
  using Columns = ReducedColumns<R, T, N>;
  const ReductionWalk walk = walk_of(context);
  const int64_t outputs = walk.kept.size() / N, length = walk.reduced.size();
  Columns columns{};
  columns.kept = walk.kept;
  columns.reduced = walk.reduced;
  columns.groups =
      divided(walk.fast_is_reduced ? contiguous_groups(outputs, length, 1)
                                   : interleaved_groups(outputs, length, walk.kept.inner_size() / N));
  return reduction_kernel<R, T>(context, device, walk, columns, N * sizeof(typename R::Total));
}

}  // namespace mtf::cuda
