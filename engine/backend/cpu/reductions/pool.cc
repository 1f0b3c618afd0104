// Sums and maxima over windows. The dimension that is last in the result is the vector; for each position of the others
// the places of the window are visited in their order, so that neither threads nor layouts change a bit.
#include "engine/ops/pool.h"

#include <algorithm>
#include <array>
#include <limits>

#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/backend/element.h"
#include "engine/backend/placed_window.h"
#include "engine/backend/strided.h"
#include "engine/base/dispatch.h"
#include "engine/base/integer_division.h"

namespace mtf {
namespace {

/// Elements of a vector that are computed at a time.
constexpr int64_t kVector = 512;

struct WindowAxis {
  PlacedWindow placed;
  int64_t entry_stride = 0, window_stride = 0;  ///< in the two operands
  int64_t entry_block = 0, window_block = 0;    ///< strides of the blocks
};

/// The operands: entries and windows. `spreads`: the result has the entries.
struct Plan {
  bool spreads = false;
  std::vector<WindowAxis> windows = {};
  StridedAxes<2> others = {};  ///< neither windows nor the vector; strides in entries and windows
  /// The vector: a dimension without windows, or that of one.
  int64_t vector = 1, entry_stride = 0, window_stride = 0;
  int vector_window = -1;
  int64_t places = 1;  ///< places in a window
};

Plan make_plan(const KernelContext& context, const std::vector<Window>& windows, bool spreads) {
  const LocalTensor& entries = spreads ? context.outputs[0] : context.inputs[0];
  const LocalTensor& read_from = spreads ? context.inputs[0] : context.outputs[0];
  Plan plan{.spreads = spreads};
  std::vector<bool> taken(static_cast<size_t>(entries.global.rank()));
  const auto axis_of = [&](const std::string& name) {
    const int axis = *entries.global.find(name);
    taken[static_cast<size_t>(axis)] = true;
    return static_cast<size_t>(axis);
  };
  const int last = entries.global.rank() - 1;
  for (const Window& window : windows) {
    WindowAxis axis{.placed = {context, window, entries, read_from}};
    const size_t at = axis_of(window.dimension);
    axis.entry_stride = entries.strides[at];
    axis.window_stride = read_from.strides[at];
    if (!window.blocks.empty()) {
      const size_t blocks = axis_of(window.blocks);
      axis.entry_block = entries.strides[blocks];
      axis.window_block = read_from.strides[blocks];
    }
    plan.places *= window.size;
    if (static_cast<int>(at) == last) {
      plan.vector_window = static_cast<int>(plan.windows.size());
      plan.vector = spreads ? axis.placed.entries : axis.placed.windows;
      plan.entry_stride = axis.entry_stride;
      plan.window_stride = axis.window_stride;
    }
    plan.windows.push_back(axis);
  }
  for (int a = 0; a <= last; ++a) {
    const auto at = static_cast<size_t>(a);
    if (taken[at]) continue;
    const int64_t size = entries.local[a].size;
    if (a == last) {
      plan.vector = size;
      plan.entry_stride = entries.strides[at];
      plan.window_stride = read_from.strides[at];
    } else {
      plan.others.push_back({size, {entries.strides[at], read_from.strides[at]}});
    }
  }
  plan.others = joined(plan.others);
  return plan;
}

/// Part of a vector, where a place of the window has something to read: element first + i of the result is read at
/// offset `from` + i * `step`.
struct Run {
  int64_t first = 0, count = 0, every = 1;  ///< every `every`-th element of the result
  int64_t from = 0, step = 0;
};

/// A position in all dimensions but the vector.
class Position {
 public:
  Position(const Plan& plan, const KernelCall& call, int64_t unit) : plan_(plan) {
    for (size_t w = plan.windows.size(); w-- > 0;) {
      const WindowAxis& axis = plan.windows[w];
      const int64_t size = plan.spreads ? axis.placed.entries : axis.placed.windows;
      const bool in_vector = static_cast<int>(w) == plan.vector_window;
      index_[w] = in_vector ? 0 : unit % size;
      if (!in_vector) unit /= size;
      const int64_t block = unit % axis.placed.blocks;
      unit /= axis.placed.blocks;
      local_[w] = axis.placed.local(call, block);
      entry_ += block * axis.entry_block;
      window_ += block * axis.window_block;
      (plan.spreads ? entry_ : window_) +=
          index_[w] * (plan.spreads ? axis.entry_stride : axis.window_stride);
    }
    const Offsets<2> at = offsets_of(plan.others, unit);
    entry_ += at[0];
    window_ += at[1];
  }

  /// Where the vector of the result begins.
  int64_t result() const { return plan_.spreads ? entry_ : window_; }

  /// What place `place` of the window contributes to elements [begin, end) of the vector.
  Run run(int64_t place, int64_t begin, int64_t end) const {
    Run run{.first = begin, .count = end - begin, .from = plan_.spreads ? window_ : entry_};
    run.step = plan_.spreads ? plan_.window_stride : plan_.entry_stride;
    for (size_t w = plan_.windows.size(); w-- > 0;) {
      const WindowAxis& axis = plan_.windows[w];
      const Window& window = axis.placed.window;
      const int64_t shift = place % window.size * window.dilation + local_[w].origin;
      place /= window.size;
      if (static_cast<int>(w) == plan_.vector_window) {
        plan_.spreads ? cut_entries(run, window, local_[w], shift)
                      : cut_windows(run, window, local_[w], shift);
        continue;
      }
      int64_t at = index_[w] * window.stride + shift;
      bool inside = at >= local_[w].first_entry && at < local_[w].end_entry;
      if (plan_.spreads) {
        inside = floor_modulo(index_[w] - shift, window.stride) == 0;
        at = floor_divide(index_[w] - shift, window.stride);
        inside = inside && at >= local_[w].first_window && at < local_[w].end_window;
      }
      if (!inside) return {};
      run.from += at * (plan_.spreads ? axis.window_stride : axis.entry_stride);
    }
    if (plan_.vector_window < 0) run.from += begin * run.step;
    return run;
  }

 private:
  /// The windows of [first, first + count) whose entry w * stride + shift exists.
  void cut_windows(Run& run, const Window& window, const Window::Local& local, int64_t shift) const {
    const int64_t first = std::max(run.first, -floor_divide(shift - local.first_entry, window.stride));
    const int64_t end =
        std::min(run.first + run.count, floor_divide(local.end_entry - 1 - shift, window.stride) + 1);
    run.from += (first * window.stride + shift) * plan_.entry_stride;
    run.step = window.stride * plan_.entry_stride;
    run.first = first;
    run.count = std::max<int64_t>(0, end - first);
  }

  /// The entries of [first, first + count) that a window reads at this place: w * stride + shift.
  void cut_entries(Run& run, const Window& window, const Window::Local& local, int64_t shift) const {
    const int64_t first = std::max(local.first_window, -floor_divide(shift - run.first, window.stride));
    const int64_t end =
        std::min(local.end_window, floor_divide(run.first + run.count - 1 - shift, window.stride) + 1);
    run.from += first * plan_.window_stride;
    run.step = plan_.window_stride;
    run.first = first * window.stride + shift;
    run.every = window.stride;
    run.count = std::max<int64_t>(0, end - first);
  }

  const Plan& plan_;
  std::array<int64_t, kMostWindows> index_{};
  std::array<Window::Local, kMostWindows> local_{};
  int64_t entry_ = 0, window_ = 0;
};

/// Calls body(position, begin, end) for parts of the vectors of a range of units.
template <class Body>
std::unique_ptr<Kernel> over_vectors(Plan plan, size_t scratch, Body body) {
  int64_t units = size_of(plan.others);
  for (size_t w = 0; w < plan.windows.size(); ++w) {
    const PlacedWindow& placed = plan.windows[w].placed;
    units *= placed.blocks;
    if (static_cast<int>(w) != plan.vector_window) units *= plan.spreads ? placed.entries : placed.windows;
  }
  const int64_t work = plan.vector * plan.places;
  return make_kernel(
      units, std::max<int64_t>(1, kElementsPerTask / work),
      [plan = std::move(plan), body](const KernelCall& call, int64_t begin, int64_t end) {
        for (int64_t unit = begin; unit < end; ++unit) {
          const Position position(plan, call, unit);
          for (int64_t i = 0; i < plan.vector; i += kVector)
            body(plan, call, position, i, std::min(plan.vector, i + kVector));
        }
      },
      scratch);
}

template <class T>
MTF_INLINE void add_run(const T* x, int64_t step, int64_t every, int64_t count, Computed<T>* sums) {
  if (step == 1 && every == 1) {
    for (int64_t i = 0; i < count; ++i) sums[i] += widen(x[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) sums[i * every] += widen(x[i * step]);
  }
}

/// Where `place` has a larger entry than the places before it (or the first NaN), it becomes the best.
template <class T>
MTF_INLINE void compare_run(const T* x, int64_t step, int64_t count, int32_t place, Computed<T>* best,
                            int32_t* places) {
  const auto compare = [&](int64_t i, Computed<T> value) __attribute__((always_inline)) {
    const bool better = places[i] < 0 || value > best[i] || (value != value && best[i] == best[i]);
    best[i] = better ? value : best[i];
    places[i] = better ? place : places[i];
  };
  if (step == 1) {
    for (int64_t i = 0; i < count; ++i) compare(i, widen(x[i]));
  } else {
    for (int64_t i = 0; i < count; ++i) compare(i, widen(x[i * step]));
  }
}

/// Adds dy where the maximum is at `place`.
template <class T>
MTF_INLINE void add_matches(const T* dy, const int32_t* places, int64_t step, int64_t every, int64_t count,
                            int32_t place, Computed<T>* sums) {
  for (int64_t i = 0; i < count; ++i) {
    const Computed<T> value = widen(dy[i * step]);
    sums[i * every] += places[i * step] == place ? value : Computed<T>(0);
  }
}

template <class T>
std::unique_ptr<Kernel> sum_kernel(const KernelContext& context) {
  using C = Computed<T>;
  const auto& operation = static_cast<const WindowSum&>(context.operation);
  const C scale = static_cast<C>(operation.scale);
  return over_vectors(make_plan(context, operation.windows, operation.spreads), kVector * sizeof(C),
                      [scale](const Plan& plan, const KernelCall& call, const Position& position,
                              int64_t begin, int64_t end) {
                        auto* sums = reinterpret_cast<C*>(call.scratch);
                        std::fill(sums, sums + (end - begin), C(0));
                        for (int64_t place = 0; place < plan.places; ++place) {
                          const Run run = position.run(place, begin, end);
                          if (run.count > 0)
                            dispatched<add_run<T>>(call.input<T>(0) + run.from, run.step, run.every,
                                                   run.count, sums + (run.first - begin));
                        }
                        const int64_t stride = plan.spreads ? plan.entry_stride : plan.window_stride;
                        T* y = call.output<T>(0) + position.result() + begin * stride;
                        for (int64_t i = 0; i < end - begin; ++i) y[i * stride] = narrow<T>(sums[i] * scale);
                      });
}

template <class T>
std::unique_ptr<Kernel> max_kernel(const KernelContext& context) {
  using C = Computed<T>;
  return over_vectors(
      make_plan(context, static_cast<const WindowMax&>(context.operation).windows, false),
      kVector * (sizeof(C) + sizeof(int32_t)),
      [](const Plan& plan, const KernelCall& call, const Position& position, int64_t begin, int64_t end) {
        auto* best = reinterpret_cast<C*>(call.scratch);
        auto* places = reinterpret_cast<int32_t*>(best + kVector);
        std::fill(best, best + (end - begin), -std::numeric_limits<C>::infinity());
        std::fill(places, places + (end - begin), -1);
        for (int64_t place = 0; place < plan.places; ++place) {
          const Run run = position.run(place, begin, end);
          const int64_t at = run.first - begin;
          if (run.count > 0)
            dispatched<compare_run<T>>(call.input<T>(0) + run.from, run.step, run.count,
                                       static_cast<int32_t>(place), best + at, places + at);
        }
        const int64_t stride = plan.window_stride, first = position.result() + begin * stride;
        T* y = call.output<T>(0) + first;
        auto* place = call.output<int32_t>(1) + first;
        for (int64_t i = 0; i < end - begin; ++i) {
          y[i * stride] = narrow<T>(best[i]);
          place[i * stride] = places[i];
        }
      });
}

template <class T>
std::unique_ptr<Kernel> max_gradient_kernel(const KernelContext& context) {
  using C = Computed<T>;
  return over_vectors(
      make_plan(context, static_cast<const WindowMaxGradient&>(context.operation).windows, true),
      kVector * sizeof(C),
      [](const Plan& plan, const KernelCall& call, const Position& position, int64_t begin, int64_t end) {
        auto* sums = reinterpret_cast<C*>(call.scratch);
        std::fill(sums, sums + (end - begin), C(0));
        for (int64_t place = 0; place < plan.places; ++place) {
          const Run run = position.run(place, begin, end);
          if (run.count > 0)
            dispatched<add_matches<T>>(call.input<T>(0) + run.from, call.input<int32_t>(1) + run.from,
                                       run.step, run.every, run.count, static_cast<int32_t>(place),
                                       sums + (run.first - begin));
        }
        T* dx = call.output<T>(0) + position.result() + begin * plan.entry_stride;
        for (int64_t i = 0; i < end - begin; ++i) dx[i * plan.entry_stride] = narrow<T>(sums[i]);
      });
}

template <class T>
struct Registrations {
  KernelRegistration sum{"window_sum", {DTypeOf<T>::value}, sum_kernel<T>};
  KernelRegistration spread{"window_spread", {DTypeOf<T>::value}, sum_kernel<T>};
  KernelRegistration max{"window_max", {DTypeOf<T>::value}, max_kernel<T>};
  KernelRegistration max_gradient{"window_max_gradient", {DTypeOf<T>::value}, max_gradient_kernel<T>};
};
const Registrations<float> of_float32;
const Registrations<BFloat16> of_bfloat16;
const Registrations<double> of_float64;

}  // namespace
}  // namespace mtf
