// Sums and maxima over windows. A part of the result is computed at a time: entries of a line, a dimension that has windows where
// possible, by the channels, a last dimension that has none. The places of the window are visited in their order, so
// that neither threads nor layouts change a bit.
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

/// Elements of the result that are computed at a time, and channels of them.
constexpr int64_t kPart = 2048, kMostChannels = 512;

struct WindowAxis {
  PlacedWindow placed;
  int64_t entry_stride = 0, window_stride = 0;  ///< in the two operands
  int64_t entry_block = 0, window_block = 0;    ///< strides of the blocks
};

/// The operands: entries and windows. `spreads`: the result has the entries.
struct Plan {
  bool spreads = false;
  std::vector<WindowAxis> windows = {};
  StridedAxes<2> others = {};  ///< neither windows nor the line nor channels; strides in entries and windows
  int64_t line = 1;            ///< what the result has along the line
  int64_t entry_stride = 0, window_stride = 0;  ///< along the line
  int line_window = -1;                         ///< the windows along the line, if it has any
  int64_t channels = 1;                         ///< neighbours in both operands
  int64_t places = 1;                           ///< places in a window

  /// The stride of the line in the result.
  int64_t result_stride() const { return spreads ? entry_stride : window_stride; }
  int64_t channels_at_once() const { return std::min(channels, kMostChannels); }
  int64_t line_at_once() const { return std::max<int64_t>(1, kPart / channels_at_once()); }
  int64_t part() const { return channels_at_once() * line_at_once(); }
};

Plan make_plan(const KernelContext& context, const std::vector<Window>& windows, bool spreads) {
  const LocalTensor& entries = spreads ? context.outputs[0] : context.inputs[0];
  const LocalTensor& read_from = spreads ? context.inputs[0] : context.outputs[0];
  Plan plan{.spreads = spreads};
  std::vector<bool> taken(static_cast<size_t>(entries.global.rank()));
  const auto axis_of = [&](const std::string& name) {
    const int axis = *entries.global.find(name);
    taken[static_cast<size_t>(axis)] = true;
    return axis;
  };
  int line_axis = -1;
  for (const Window& window : windows) {
    WindowAxis axis{.placed = {context, window, entries, read_from}};
    const int at = axis_of(window.dimension);
    axis.entry_stride = entries.strides[at];
    axis.window_stride = read_from.strides[at];
    if (!window.blocks.empty()) {
      const int blocks = axis_of(window.blocks);
      axis.entry_block = entries.strides[blocks];
      axis.window_block = read_from.strides[blocks];
    }
    plan.places *= window.size;
    if (at > line_axis) {
      line_axis = at;
      plan.line_window = static_cast<int>(plan.windows.size());
    }
    plan.windows.push_back(axis);
  }
  const int last = entries.global.rank() - 1;
  if (last >= 0 && !taken[static_cast<size_t>(last)]) {
    taken[static_cast<size_t>(last)] = true;
    if (entries.strides[last] == 1 && read_from.strides[last] == 1) {
      plan.channels = entries.local[last].size;
    } else {
      line_axis = last;
      plan.line_window = -1;
    }
  }
  if (line_axis >= 0) {
    plan.line = (spreads ? entries : read_from).local[line_axis].size;
    plan.entry_stride = entries.strides[line_axis];
    plan.window_stride = read_from.strides[line_axis];
  }
  for (int a = 0; a <= last; ++a) {
    if (!taken[static_cast<size_t>(a)])
      plan.others.push_back({entries.local[a].size, {entries.strides[a], read_from.strides[a]}});
  }
  plan.others = joined(plan.others);
  return plan;
}

/// Part of a line, where a place of the window has something to read: element first + i * every of the result is read at
/// offset `from` + i * `step`.
struct Run {
  int64_t first = 0, count = 0, every = 1;
  int64_t from = 0, step = 0;
};

/// A position in all dimensions but the line and the channels.
class Position {
 public:
  Position(const Plan& plan, const KernelCall& call, int64_t unit) : plan_(plan) {
    for (size_t w = plan.windows.size(); w-- > 0;) {
      const WindowAxis& axis = plan.windows[w];
      const int64_t size = plan.spreads ? axis.placed.entries : axis.placed.windows;
      const bool in_line = static_cast<int>(w) == plan.line_window;
      index_[w] = in_line ? 0 : unit % size;
      if (!in_line) unit /= size;
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

  /// Where the line of the result begins.
  int64_t result() const { return plan_.spreads ? entry_ : window_; }

  /// What place `place` of the window contributes to elements [begin, end) of the line.
  Run run(int64_t place, int64_t begin, int64_t end) const {
    Run run{.first = begin, .count = end - begin, .from = plan_.spreads ? window_ : entry_};
    run.step = plan_.spreads ? plan_.window_stride : plan_.entry_stride;
    for (size_t w = plan_.windows.size(); w-- > 0;) {
      const WindowAxis& axis = plan_.windows[w];
      const Window& window = axis.placed.window;
      const int64_t shift = place % window.size * window.dilation + local_[w].origin;
      place /= window.size;
      if (static_cast<int>(w) == plan_.line_window) {
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
    if (plan_.line_window < 0) run.from += begin * run.step;
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

/// Elements [begin, begin + size) of a line, `channels` channels of each from `channel` on.
struct Part {
  const Plan& plan;
  const Position& position;
  int64_t begin, size, channel, channels;

  int64_t elements() const { return size * channels; }

  /// Calls visit(place, run) for each place of the window that reads something. Elements of the run are counted from the
  /// first one of this part, and channels from `channel`.
  template <class Visit>
  void for_each_run(Visit&& visit) const {
    for (int64_t place = 0; place < plan.places; ++place) {
      Run run = position.run(place, begin, begin + size);
      run.first -= begin;
      run.from += channel;
      if (run.count > 0) visit(static_cast<int32_t>(place), run);
    }
  }
  /// The first element in the result.
  int64_t result() const { return position.result() + begin * plan.result_stride() + channel; }
};

/// Calls body(call, part) for all parts of the result.
template <class Body>
std::unique_ptr<Kernel> over_parts(Plan plan, size_t bytes_of_element, Body body) {
  int64_t units = size_of(plan.others);
  for (size_t w = 0; w < plan.windows.size(); ++w) {
    const PlacedWindow& placed = plan.windows[w].placed;
    units *= placed.blocks;
    if (static_cast<int>(w) != plan.line_window) units *= plan.spreads ? placed.entries : placed.windows;
  }
  const int64_t work = std::max<int64_t>(1, plan.line * plan.channels * plan.places);
  const size_t scratch = static_cast<size_t>(plan.part()) * bytes_of_element;
  return make_kernel(
      units, std::max<int64_t>(1, kElementsPerTask / work),
      [plan = std::move(plan), body](const KernelCall& call, int64_t begin, int64_t end) {
        const int64_t line = plan.line_at_once(), channels = plan.channels_at_once();
        for (int64_t unit = begin; unit < end; ++unit) {
          const Position position(plan, call, unit);
          for (int64_t i = 0; i < plan.line; i += line) {
            for (int64_t c = 0; c < plan.channels; c += channels)
              body(call, Part{plan, position, i, std::min(line, plan.line - i), c,
                              std::min(channels, plan.channels - c)});
          }
        }
      },
      scratch);
}

/// Calls visit(i, j) for each element of a run by its place in the part, and where it is read from run.from on.
template <class Visit>
MTF_INLINE void for_each_element(Run run, int64_t channels, Visit&& visit) {
  if (run.every == 1 && run.step == channels) {
    for (int64_t i = 0; i < run.count * channels; ++i) visit(run.first * channels + i, i);
  } else if (channels == 1) {
    for (int64_t i = 0; i < run.count; ++i) visit(run.first + i * run.every, i * run.step);
  } else {
    for (int64_t i = 0; i < run.count; ++i) {
      const int64_t to = (run.first + i * run.every) * channels, from = i * run.step;
      for (int64_t c = 0; c < channels; ++c) visit(to + c, from + c);
    }
  }
}

template <class T>
MTF_INLINE void add_run(const T* __restrict x, const Run& run, int64_t channels,
                        Computed<T>* __restrict sums) {
  for_each_element(
      run, channels, [&](int64_t i, int64_t j) __attribute__((always_inline)) { sums[i] += widen(x[j]); });
}

/// Where `place` has a larger entry than the places before it (or the first NaN), it becomes the best.
template <class T>
MTF_INLINE void compare_run(const T* __restrict x, const Run& run, int64_t channels, int32_t place,
                            Computed<T>* __restrict best, int32_t* __restrict places) {
  for_each_element(
      run, channels, [&](int64_t i, int64_t j) __attribute__((always_inline)) {
        const Computed<T> value = widen(x[j]);
        const Computed<T> old = best[i];
        const int32_t old_place = places[i];
        // All are computed: a branch for each element would be mispredicted.
        const bool better = (old_place < 0) | (value > old) | ((value != value) & (old == old));
        best[i] = better ? value : old;
        places[i] = better ? place : old_place;
      });
}

/// Adds dy where the maximum is at `place`.
template <class T>
MTF_INLINE void add_matches(const T* __restrict dy, const int32_t* __restrict places, const Run& run,
                            int64_t channels, int32_t place, Computed<T>* __restrict sums) {
  for_each_element(
      run, channels, [&](int64_t i, int64_t j) __attribute__((always_inline)) {
        const Computed<T> value = widen(dy[j]);
        sums[i] += places[j] == place ? value : Computed<T>(0);
      });
}

/// Writes scale * from[i] to a part of the result whose line has stride `stride`.
template <class From, class To>
MTF_INLINE void store_part(const From* __restrict from, From scale, int64_t size, int64_t channels,
                           int64_t stride, To* __restrict to) {
  const Run run{.count = size, .step = stride};
  for_each_element(
      run, channels, [&](int64_t i, int64_t j) __attribute__((always_inline)) {
        to[j] = narrow<To>(from[i] * scale);
      });
}

template <class T>
std::unique_ptr<Kernel> sum_kernel(const KernelContext& context) {
  using C = Computed<T>;
  const auto& operation = static_cast<const WindowSum&>(context.operation);
  const C scale = static_cast<C>(operation.scale);
  return over_parts(make_plan(context, operation.windows, operation.spreads), sizeof(C),
                    [scale](const KernelCall& call, const Part& part) {
                      auto* sums = reinterpret_cast<C*>(call.scratch);
                      std::fill(sums, sums + part.elements(), C(0));
                      part.for_each_run([&](int32_t, const Run& run) {
                        dispatched<add_run<T>>(call.input<T>(0) + run.from, run, part.channels, sums);
                      });
                      dispatched<store_part<C, T>>(sums, scale, part.size, part.channels,
                                                   part.plan.result_stride(),
                                                   call.output<T>(0) + part.result());
                    });
}

template <class T>
std::unique_ptr<Kernel> max_kernel(const KernelContext& context) {
  using C = Computed<T>;
  return over_parts(make_plan(context, static_cast<const WindowMax&>(context.operation).windows, false),
                    sizeof(C) + sizeof(int32_t), [](const KernelCall& call, const Part& part) {
                      auto* best = reinterpret_cast<C*>(call.scratch);
                      auto* places = reinterpret_cast<int32_t*>(best + part.plan.part());
                      std::fill(best, best + part.elements(), -std::numeric_limits<C>::infinity());
                      std::fill(places, places + part.elements(), -1);
                      part.for_each_run([&](int32_t place, const Run& run) {
                        dispatched<compare_run<T>>(call.input<T>(0) + run.from, run, part.channels, place,
                                                   best, places);
                      });
                      const int64_t stride = part.plan.result_stride();
                      dispatched<store_part<C, T>>(best, C(1), part.size, part.channels, stride,
                                                   call.output<T>(0) + part.result());
                      dispatched<store_part<int32_t, int32_t>>(places, 1, part.size, part.channels, stride,
                                                               call.output<int32_t>(1) + part.result());
                    });
}

template <class T>
std::unique_ptr<Kernel> max_gradient_kernel(const KernelContext& context) {
  using C = Computed<T>;
  return over_parts(
      make_plan(context, static_cast<const WindowMaxGradient&>(context.operation).windows, true), sizeof(C),
      [](const KernelCall& call, const Part& part) {
        auto* sums = reinterpret_cast<C*>(call.scratch);
        std::fill(sums, sums + part.elements(), C(0));
        part.for_each_run([&](int32_t place, const Run& run) {
          dispatched<add_matches<T>>(call.input<T>(0) + run.from, call.input<int32_t>(1) + run.from, run,
                                     part.channels, place, sums);
        });
        dispatched<store_part<C, T>>(sums, C(1), part.size, part.channels, part.plan.result_stride(),
                                     call.output<T>(0) + part.result());
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
