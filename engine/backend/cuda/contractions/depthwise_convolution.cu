// Each result is a short sum of products of one channel. Windows and entries: a thread computes an element, or a pack of
// adjacent channels. The filter: see FilterSums.
#include <algorithm>

#include "engine/backend/cuda/contractions/depthwise_convolution.h"
#include "engine/backend/cuda/device/device_kernel.h"
#include "engine/backend/cuda/device/thread_groups.h"
#include "engine/backend/cuda/device/window_walk.h"
#include "engine/backend/element.h"
#include "engine/backend/visit_type.h"

namespace mtf::cuda {
namespace {

template <class T, class Out, int N, class Walk>
struct DepthwiseSums {
  const T *source, *filter;
  Out* y;
  Walk walk;  ///< operands: result, source, filter

  MTF_DEVICE void operator()(const Block& block) const {
    for (int64_t i = block.first(); i < walk.size(); i += block.stride()) {
      const auto element = walk.at(i);
      const T* weights = filter + element.at[2];
      Computed<T> sums[N] = {};
      walk.for_each_tap(element, [&](int64_t from, int64_t tap) {
        const Pack<T, N> x = load<N>(source + from), f = load<N>(weights + tap);
        MTF_UNROLL(N)
        for (int n = 0; n < N; ++n) sums[n] += widen(x[n]) * widen(f[n]);
      });
      Pack<Out, N> result;
      MTF_UNROLL(N)
      for (int n = 0; n < N; ++n) result[n] = narrow<Out>(sums[n]);
      store(y + element.at[0], result);
    }
  }
};

template <class T, class Out>
std::unique_ptr<Kernel> depthwise_sums(const ConvolutionOperands& operands, Device& device, int64_t flops) {
  const auto result = operands.result;
  const bool spreads = result == Convolution::kEntries;
  const auto source = spreads ? Convolution::kWindows : Convolution::kEntries;
  std::vector<WindowPlan<3>::Dimension> dimensions;
  for (const ConvolutionWindow& w : operands.windows) {
    dimensions.push_back({w.placed, w.strides[result], w.strides[source], w.strides[Convolution::kFilter],
                          w.blocks[result], w.blocks[source]});
  }
  StridedAxes<3> others;
  for (const StridedAxes<3>* axes : {&operands.groups, &operands.images}) {
    for (const auto& [size, strides] : *axes)
      others.push_back({size, {strides[result], strides[source], strides[Convolution::kFilter]}});
  }
  WindowPlan<3> plan(std::move(dimensions), others, spreads);
  const int first = operands.input_of(source), filter = operands.input_of(Convolution::kFilter);
  const auto kernel = [&]<int N>(std::integral_constant<int, N>) -> std::unique_ptr<Kernel> {
    return make_device_kernel(
        device,
        [plan, first, filter](const Launcher& launch, const KernelCall& call) {
          plan.for_each_block(call, [&]<class Walk>(const Walk& walk, int64_t to, int64_t from) {
            launch(over(walk.size(), 1),
                   DepthwiseSums<T, Out, N, Walk>{call.input<T>(first) + from, call.input<T>(filter),
                                                  call.output<Out>(0) + to, walk});
          });
        },
        0, flops);
  };
  if constexpr (!std::is_same_v<T, double>) {  // float64 is for tests of models: one compiles faster
    if (plan.walk_in_packs(kPack<T>)) return kernel(std::integral_constant<int, kPack<T>>());
  }
  return kernel(std::integral_constant<int, 1>());
}

/// Partial sums of the filter's gradient, for each tap and channel those of a chunk of lines; a line is the windows along
/// the last dimension with windows, for one image and one index of the others.
template <class T>
struct FilterSums {
  using C = Computed<T>;
  struct Axis {
    Divisor positions{1, 1}, taps{1, 1};
    int64_t entry_stride = 0, window_stride = 0;
    int stride = 1, dilation = 1, origin = 0, first = 0, end = 1;
  };

  const T *entries, *windows;
  C* partials;  ///< [tap, channel, chunk]
  Axis axes[kMostWindows];
  Strided<2> channels, images;  ///< strides in entries and windows
  Divisor by_channels;
  int64_t units, lines, lines_of_chunk;  ///< units: taps and channels in each chunk
  Divisor by_units;
  int64_t chunk, chunks;  ///< the first chunk of this launch, and all of them

  MTF_DEVICE void operator()(const Block& block) const {
    constexpr int kLast = kMostWindows - 1;
    const int64_t here = (lines + lines_of_chunk - 1) / lines_of_chunk;
    for (int64_t i = block.first(); i < here * units; i += block.stride()) {
      const Division unit = by_units(i), tap_channel = by_channels(unit.remainder);
      const Offsets<2> channel = channels.at(tap_channel.remainder);
      int taps[kMostWindows];  // in entries, relative to the first entry of a window
      int64_t rest = tap_channel.quotient;
      MTF_UNROLL(kMostWindows)
      for (int w = kLast; w >= 0; --w) {
        const Division tap = axes[w].taps(rest);
        taps[w] = static_cast<int>(tap.remainder) * axes[w].dilation + axes[w].origin;
        rest = tap.quotient;
      }
      // The windows of a line whose entry exists.
      const Axis& along = axes[kLast];
      const int before = along.first - taps[kLast], reach = along.end - 1 - taps[kLast];
      const int first = before > 0 ? (before + along.stride - 1) / along.stride : 0;
      const int end =
          reach < 0 ? 0 : std::min(static_cast<int>(along.positions.value()), reach / along.stride + 1);
      C sum = 0;
      const int64_t last_line = std::min(lines, (unit.quotient + 1) * lines_of_chunk);
      for (int64_t line = unit.quotient * lines_of_chunk; line < last_line; ++line) {
        int64_t x = channel[0], y = channel[1], position = line;
        bool exists = true;
        MTF_UNROLL(kLast)
        for (int w = kLast - 1; w >= 0; --w) {
          const Division p = axes[w].positions(position);
          const int entry = static_cast<int>(p.remainder) * axes[w].stride + taps[w];
          exists = exists && entry >= axes[w].first && entry < axes[w].end;
          x += entry * axes[w].entry_stride;
          y += p.remainder * axes[w].window_stride;
          position = p.quotient;
        }
        if (!exists) continue;
        const Offsets<2> image = images.at(position);
        x += image[0] + taps[kLast] * along.entry_stride;
        y += image[1];
        for (int r = first; r < end; ++r)
          sum += widen(entries[x + r * along.stride * along.entry_stride]) *
                 widen(windows[y + r * along.window_stride]);
      }
      partials[unit.remainder * chunks + chunk + unit.quotient] = sum;
    }
  }
};

/// Adds the chunks of each entry of the filter, with a warp for each.
template <class C, class Out>
struct AddFilterChunks {
  const C* partials;
  Out* y;
  Strided<1> entries;  ///< taps and channels
  int64_t chunks;

  MTF_DEVICE void operator()(const Block& block) const {
    for (int64_t i = block.first() / kWarp; i < entries.size(); i += block.stride() / kWarp) {
      C sum = 0;
      for (int64_t chunk = block.lane(); chunk < chunks; chunk += kWarp) sum += partials[i * chunks + chunk];
      sum = reduce_warp(block, sum, Sum{});
      if (block.lane() == 0) y[entries.at(i)[0]] = narrow<Out>(sum);
    }
  }
};

template <class T>
class FilterSumsPlan {
 public:
  explicit FilterSumsPlan(const ConvolutionOperands& operands) : windows_(operands.windows) {
    // The last dimension is the one whose entries are closest, after those of one window.
    std::ranges::stable_sort(windows_, [](const ConvolutionWindow& a, const ConvolutionWindow& b) {
      const bool a_moves = a.placed.windows > 1, b_moves = b.placed.windows > 1;
      return a_moves != b_moves ? b_moves
                                : a.strides[Convolution::kEntries] > b.strides[Convolution::kEntries];
    });
    StridedAxes<2> channels, images;
    StridedAxes<1> filter;
    for (const auto& [size, strides] : operands.images)
      images.push_back({size, {strides[Convolution::kEntries], strides[Convolution::kWindows]}});
    int64_t taps = 1, lines = 1;
    for (size_t w = 0; w < windows_.size(); ++w) {
      const ConvolutionWindow& window = windows_[w];
      filter.push_back({window.window().size, {window.strides[Convolution::kFilter]}});
      taps *= window.window().size;
      blocks_ *= window.placed.blocks;
      if (w + 1 < windows_.size()) lines *= window.placed.windows;
    }
    for (const auto& [size, strides] : operands.groups) {
      channels.push_back({size, {strides[Convolution::kEntries], strides[Convolution::kWindows]}});
      filter.push_back({size, {strides[Convolution::kFilter]}});
    }
    body_.channels = Strided<2>(channels);
    body_.images = Strided<2>(images);
    body_.lines = lines * body_.images.size();
    body_.units = taps * body_.channels.size();
    const int64_t wanted = std::clamp<int64_t>(kBusyThreads / body_.units, 1, body_.lines);
    body_.lines_of_chunk = ceil_divide(body_.lines, wanted);
    of_block_ = ceil_divide(body_.lines, body_.lines_of_chunk);
    body_.chunks = of_block_ * blocks_;
    const int64_t all = std::max(body_.units * of_block_, body_.lines);
    body_.by_channels = Divisor(body_.channels.size(), all);
    body_.by_units = Divisor(body_.units, all);
    for (size_t w = 0; w < kMostWindows; ++w) {
      typename FilterSums<T>::Axis& axis = axis_of(w);
      const ConvolutionWindow* window = w < windows_.size() ? &windows_[windows_.size() - 1 - w] : nullptr;
      axis.positions = Divisor(window ? window->placed.windows : 1, all);
      axis.taps = Divisor(window ? window->window().size : 1, all);
      if (!window) continue;
      axis.entry_stride = window->strides[Convolution::kEntries];
      axis.window_stride = window->strides[Convolution::kWindows];
      axis.stride = static_cast<int>(window->window().stride);
      axis.dilation = static_cast<int>(window->window().dilation);
    }
    filter_ = Strided<1>(filter);
  }

  size_t scratch_bytes() const {
    return static_cast<size_t>(body_.units * body_.chunks) * sizeof(Computed<T>);
  }

  template <class Out>
  void enqueue(const Launcher& launch, const KernelCall& call) const {
    for (int64_t number = 0; number < blocks_; ++number) {
      FilterSums<T> body = body_;
      body.entries = call.input<T>(0);
      body.windows = call.input<T>(1);
      body.partials = reinterpret_cast<Computed<T>*>(call.scratch);
      body.chunk = number * of_block_;
      int64_t rest = number;
      for (size_t w = 0; w < windows_.size(); ++w) {
        const ConvolutionWindow& window = windows_[windows_.size() - 1 - w];
        const int64_t block = rest % window.placed.blocks;
        rest /= window.placed.blocks;
        body.entries += block * window.blocks[Convolution::kEntries];
        body.windows += block * window.blocks[Convolution::kWindows];
        const Window::Local local = window.placed.local(call, block);
        typename FilterSums<T>::Axis& axis = body.axes[kMostWindows - 1 - w];
        axis.origin = static_cast<int>(local.origin);
        axis.first = static_cast<int>(local.first_entry);
        axis.end = static_cast<int>(local.end_entry);
      }
      launch(over(of_block_ * body.units, 1), body);
    }
    launch(over(body_.units * kWarp, 1),
           AddFilterChunks<Computed<T>, Out>{reinterpret_cast<const Computed<T>*>(call.scratch),
                                             call.output<Out>(0), filter_, body_.chunks});
  }

 private:
  typename FilterSums<T>::Axis& axis_of(size_t from_last) { return body_.axes[kMostWindows - 1 - from_last]; }

  std::vector<ConvolutionWindow> windows_;
  FilterSums<T> body_{};  ///< without pointers and geometry of a block
  Strided<1> filter_;
  int64_t blocks_ = 1, of_block_ = 1;
};

template <class T, class Out>
std::unique_ptr<Kernel> depthwise_into(const ConvolutionOperands& operands, Device& device, int64_t flops) {
  if (operands.result != Convolution::kFilter) return depthwise_sums<T, Out>(operands, device, flops);
  const FilterSumsPlan<T> plan(operands);
  return make_device_kernel(
      device,
      [plan](const Launcher& launch, const KernelCall& call) { plan.template enqueue<Out>(launch, call); },
      plan.scratch_bytes(), flops);
}

}  // namespace

std::unique_ptr<Kernel> make_depthwise_convolution(const ConvolutionOperands& operands, Device& device,
                                                   int64_t flops) {
  const DType dtype =
      operands.of(operands.result == Convolution::kFilter ? Convolution::kEntries : Convolution::kFilter)
          .dtype;
  return visit_floating_type(dtype, [&]<class T>(std::type_identity<T>) -> std::unique_ptr<Kernel> {
    return operands.of(operands.result).dtype == dtype
               ? depthwise_into<T, T>(operands, device, flops)
               : depthwise_into<T, Computed<T>>(operands, device, flops);
  });
}

}  // namespace mtf::cuda
