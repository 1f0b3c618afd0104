// Sums and maxima over windows (engine/ops/pool.h). A thread computes one element of the result, or a pack of adjacent
// ones, and reads what its windows do: neighbours find most of that in a cache.
#include <limits>

#include "engine/backend/cuda/device/device_kernel.h"
#include "engine/backend/cuda/device/window_walk.h"
#include "engine/backend/element.h"
#include "engine/ops/pool.h"

namespace mtf::cuda {
namespace {

using PoolPlan = WindowPlan<2>;

/// With `matching` each entry gets only what the windows have whose maximum it is.
template <class T, int N, class Walk>
struct WindowSums {
  const T* x;
  const int32_t* matching;  ///< the second output of WindowMax, like x; or null
  T* y;
  Walk walk;
  Computed<T> scale;

  MTF_DEVICE void operator()(const Block& block) const {
    for (int64_t i = block.first(); i < walk.size(); i += block.stride()) {
      const auto element = walk.at(i);
      Computed<T> sums[N] = {};
      if (matching == nullptr) {
        walk.for_each_tap(element, [&](int64_t from, int64_t) {
          const Pack<T, N> pack = load<N>(x + from);
          MTF_UNROLL(N)
          for (int n = 0; n < N; ++n) sums[n] += widen(pack[n]);
        });
      } else {
        walk.for_each_tap(element, [&](int64_t from, int64_t place) {
          const Pack<T, N> pack = load<N>(x + from);
          const Pack<int32_t, N> places = load<N>(matching + from);
          MTF_UNROLL(N)
          for (int n = 0; n < N; ++n) sums[n] += places[n] == place ? widen(pack[n]) : Computed<T>(0);
        });
      }
      Pack<T, N> result;
      MTF_UNROLL(N)
      for (int n = 0; n < N; ++n) result[n] = narrow<T>(sums[n] * scale);
      store(y + element.at[0], result);
    }
  }
};

template <class T, int N, class Walk>
struct WindowMaxima {
  const T* x;
  T* y;
  int32_t* place;
  Walk walk;

  MTF_DEVICE void operator()(const Block& block) const {
    using C = Computed<T>;
    for (int64_t i = block.first(); i < walk.size(); i += block.stride()) {
      const auto element = walk.at(i);
      Pack<T, N> best;
      Pack<int32_t, N> places;
      MTF_UNROLL(N)
      for (int n = 0; n < N; ++n) {
        best[n] = narrow<T>(-std::numeric_limits<C>::infinity());
        places[n] = -1;
      }
      // Places are not visited in their order: of equal entries, and of NaNs, the first counts.
      walk.for_each_tap(element, [&](int64_t from, int64_t here) {
        const Pack<T, N> pack = load<N>(x + from);
        MTF_UNROLL(N)
        for (int n = 0; n < N; ++n) {
          const C value = widen(pack[n]), top = widen(best[n]);
          const bool earlier = here < places[n] || places[n] < 0;
          const bool alike = value == top || (value != value && top != top);
          const bool larger = value > top || (value != value && top == top);
          if (!larger && !(alike && earlier)) continue;
          best[n] = pack[n];
          places[n] = static_cast<int32_t>(here);
        }
      });
      store(y + element.at[0], best);
      store(place + element.at[0], places);
    }
  }
};

/// The plan for the first input and the first output. The number of a place of the window counts row by row over `windows`.
PoolPlan pool_plan(const KernelContext& context, const std::vector<Window>& windows, bool spreads) {
  const LocalTensor &source = context.inputs[0], &result = context.outputs[0];
  std::vector<PoolPlan::Dimension> dimensions;
  std::vector<bool> taken(static_cast<size_t>(result.global.rank()));
  const auto axis_of = [&](const std::string& name) {
    const auto axis = static_cast<size_t>(*result.global.find(name));
    taken[axis] = true;
    return axis;
  };
  int64_t places = 1;
  for (size_t w = windows.size(); w-- > 0; places *= windows[w].size) {
    const Window& window = windows[w];
    PoolPlan::Dimension d{.placed = {context, window, spreads ? result : source, spreads ? source : result},
                          .tap_stride = places};
    const size_t axis = axis_of(window.dimension);
    d.result_stride = result.strides[axis];
    d.source_stride = source.strides[axis];
    if (!window.blocks.empty()) {
      const size_t blocks = axis_of(window.blocks);
      d.result_block = result.strides[blocks];
      d.source_block = source.strides[blocks];
    }
    dimensions.push_back(d);
  }
  StridedAxes<2> others;
  for (size_t axis = 0; axis < taken.size(); ++axis) {
    if (!taken[axis])
      others.push_back(
          {result.local[static_cast<int>(axis)].size, {result.strides[axis], source.strides[axis]}});
  }
  return {std::move(dimensions), others, spreads};
}

/// A kernel whose launches are launch_for(launch, call, walk, offset in the result, in the source), which is given the
/// elements of a pack as a type.
template <class T, class LaunchFor>
std::unique_ptr<Kernel> pool_kernel(PoolPlan plan, Device& device, const LaunchFor& launch_for) {
  const auto kernel = [&]<int N>(std::integral_constant<int, N> pack) -> std::unique_ptr<Kernel> {
    return make_device_kernel(
        device, [plan, launch_for, pack](const Launcher& launch, const KernelCall& call) {
          plan.for_each_block(call, [&](const auto& walk, int64_t result, int64_t source) {
            launch_for(pack, launch, call, walk, result, source);
          });
        });
  };
  if constexpr (!std::is_same_v<T, double>) {  // float64 is for tests of models: one compiles faster
    if (plan.walk_in_packs(kPack<T>)) return kernel(std::integral_constant<int, kPack<T>>());
  }
  return kernel(std::integral_constant<int, 1>());
}

template <class T>
std::unique_ptr<Kernel> window_sum_kernel(const KernelContext& context, Device& device) {
  const auto& operation = static_cast<const WindowSum&>(context.operation);
  return pool_kernel<T>(pool_plan(context, operation.windows, operation.spreads), device,
                        [scale = static_cast<Computed<T>>(operation.scale)]<int N, class Walk>(
                            std::integral_constant<int, N>, const Launcher& launch, const KernelCall& call,
                            const Walk& walk, int64_t result, int64_t source) {
                          launch(over(walk.size(), 1),
                                 WindowSums<T, N, Walk>{call.input<T>(0) + source, nullptr,
                                                        call.output<T>(0) + result, walk, scale});
                        });
}

template <class T>
std::unique_ptr<Kernel> window_max_kernel(const KernelContext& context, Device& device) {
  return pool_kernel<T>(
      pool_plan(context, static_cast<const WindowMax&>(context.operation).windows, false), device,
      []<int N, class Walk>(std::integral_constant<int, N>, const Launcher& launch, const KernelCall& call,
                            const Walk& walk, int64_t result, int64_t source) {
        launch(over(walk.size(), 1),
               WindowMaxima<T, N, Walk>{call.input<T>(0) + source, call.output<T>(0) + result,
                                        call.output<int32_t>(1) + result, walk});
      });
}

template <class T>
std::unique_ptr<Kernel> window_max_gradient_kernel(const KernelContext& context, Device& device) {
  return pool_kernel<T>(
      pool_plan(context, static_cast<const WindowMaxGradient&>(context.operation).windows, true), device,
      []<int N, class Walk>(std::integral_constant<int, N>, const Launcher& launch, const KernelCall& call,
                            const Walk& walk, int64_t result, int64_t source) {
        launch(over(walk.size(), 1),
               WindowSums<T, N, Walk>{call.input<T>(0) + source, call.input<int32_t>(1) + source,
                                      call.output<T>(0) + result, walk, Computed<T>(1)});
      });
}

template <class T>
struct PoolKernels {
  static constexpr DType dtype = DTypeOf<T>::value;
  DeviceKernelRegistration sum{"window_sum", {dtype}, window_sum_kernel<T>};
  DeviceKernelRegistration spread{"window_spread", {dtype}, window_sum_kernel<T>};
  DeviceKernelRegistration max{"window_max", {dtype}, window_max_kernel<T>};
  DeviceKernelRegistration max_gradient{"window_max_gradient", {dtype}, window_max_gradient_kernel<T>};
};
const PoolKernels<float> pool_f32;
const PoolKernels<BFloat16> pool_bf16;
const PoolKernels<double> pool_f64;

}  // namespace
}  // namespace mtf::cuda
