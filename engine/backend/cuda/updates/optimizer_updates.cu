// SGD, momentum and Adam in one pass over weight, gradient and slots, in packs; the time is bound by memory.
// Outputs may overwrite inputs, because a thread reads its elements before it writes them.
#include <cmath>
#include <type_traits>

#include "engine/backend/cuda/device/device_kernel.h"
#include "engine/backend/cuda/device/element_walk.h"
#include "engine/backend/cuda/device/slot_rounding.h"
#include "engine/backend/element.h"
#include "engine/backend/visit_type.h"
#include "engine/ops/optimizer_updates.h"

namespace mtf::cuda {
namespace {

template <class T>
struct Sgd {
  static constexpr bool kBatched = true;
  using A = Computed<T>;
  const T* w;
  const A *g, *learning_rate;
  T* new_w;
  int64_t size;

  MTF_DEVICE void operator()(const Block& block) const {
    const A rate = *learning_rate;
    constexpr int N = kPack<T>;
    for_each_pack<N>(block, size, [&](int64_t first, int count) {
      Pack<T, N> weight = load<N>(w + first, count);
      const Pack<A, N> gradient = load<N>(g + first, count);
      for (int i = 0; i < N; ++i) weight[i] = narrow<T>(widen(weight[i]) - rate * gradient[i]);
      store(new_w + first, weight, count);
    });
  }
};

/// Slots of type S are rounded as the base class says.
template <class T, class S>
struct Momentum : SlotRounding<S> {
  static constexpr bool kBatched = true;
  using A = Computed<T>;
  const T* w;
  const A *g, *learning_rate;
  const S* v;
  T* new_w;
  S* new_v;
  A momentum;
  int64_t size;

  MTF_DEVICE void operator()(const Block& block) const {
    const A rate = *learning_rate;
    constexpr int N = kPack<T>;
    for_each_pack<N>(block, size, [&](int64_t first, int count) {
      Pack<T, N> weight = load<N>(w + first, count);
      const Pack<A, N> gradient = load<N>(g + first, count);
      Pack<S, N> slot = load<N>(v + first, count);
      const Pack<uint32_t, N> bits = this->template bits<N>(first, count);
      for (int i = 0; i < N; ++i) {
        const A velocity = rate * gradient[i] + momentum * widen(slot[i]);
        slot[i] = this->stored(velocity, bits[i]);
        weight[i] = narrow<T>(widen(weight[i]) - velocity);
      }
      store(new_v + first, slot, count);
      store(new_w + first, weight, count);
    });
  }
};

template <class T, class S>
struct Adam : SlotRounding<S> {
  static constexpr bool kBatched = true;
  using A = Computed<T>;
  const T* w;
  const A* g;
  const S *m, *v;
  const A *learning_rate, *first_correction, *second_correction;  ///< corrections may be null
  T* new_w;
  S *new_m, *new_v;
  A beta1, rest1, beta2, rest2, epsilon, weight_decay;  ///< rest1 = 1 - beta1, rest2 = 1 - beta2
  int64_t size;

  MTF_DEVICE void operator()(const Block& block) const {
    const A rate = *learning_rate;
    const A scale1 = first_correction == nullptr ? A(1) : *first_correction;
    const A scale2 = second_correction == nullptr ? A(1) : *second_correction;
    constexpr int N = kPack<T>;
    for_each_pack<N>(block, size, [&](int64_t first, int count) {
      Pack<T, N> weight = load<N>(w + first, count);
      const Pack<A, N> gradient = load<N>(g + first, count);
      Pack<S, N> first_moment = load<N>(m + first, count), second_moment = load<N>(v + first, count);
      const Pack<uint32_t, N> bits = this->template bits<N>(first, count);
      for (int i = 0; i < N; ++i) {
        const A mean = beta1 * widen(first_moment[i]) + rest1 * gradient[i];
        const A square = beta2 * widen(second_moment[i]) + rest2 * (gradient[i] * gradient[i]);
        first_moment[i] = this->stored(mean, bits[i]);
        second_moment[i] = this->stored(square, bits[i] >> 16);
        const A old = widen(weight[i]);
        const A step = mean * scale1 / (std::sqrt(square * scale2) + epsilon) + weight_decay * old;
        weight[i] = narrow<T>(old - rate * step);
      }
      store(new_m + first, first_moment, count);
      store(new_v + first, second_moment, count);
      store(new_w + first, weight, count);
    });
  }
};

template <class T>
std::unique_ptr<Kernel> sgd_kernel(const KernelContext& context, Device& device) {
  using A = Computed<T>;
  const int64_t size = context.outputs[0].local.size();
  return make_device_kernel(device, [size](const Launcher& launch, const KernelCall& call) {
    launch(over_packs<kPack<T>>(size),
           Sgd<T>{call.input<T>(0), call.input<A>(1), call.input<A>(2), call.output<T>(0), size});
  });
}

template <class T, class S>
std::unique_ptr<Kernel> momentum_kernel_of(const KernelContext& context, Device& device) {
  using A = Computed<T>;
  const int64_t size = context.outputs[0].local.size();
  const auto& step = static_cast<const MomentumStep&>(context.operation);
  const A momentum = static_cast<A>(step.momentum);
  const PreparedRounding<S> rounding(context, step.rounding);
  return make_device_kernel(device, [=](const Launcher& launch, const KernelCall& call) {
    launch(over_packs<kPack<T>>(size),
           Momentum<T, S>{rounding.of(call, kPack<T>), call.input<T>(0), call.input<A>(1), call.input<A>(3),
                          call.input<S>(2), call.output<T>(0), call.output<S>(1), momentum, size});
  });
}

template <class T>
std::unique_ptr<Kernel> momentum_kernel(const KernelContext& context, Device& device) {
  return visit_slot_type<T>(context.inputs[2].dtype, [&]<class S>(std::type_identity<S>) {
    return momentum_kernel_of<T, S>(context, device);
  });
}

template <class T, class S>
std::unique_ptr<Kernel> adam_kernel_of(const KernelContext& context, Device& device) {
  using A = Computed<T>;
  const int64_t size = context.outputs[0].local.size();
  const auto& step = static_cast<const AdamStep&>(context.operation);
  const AdamOptions options = step.options;
  const bool corrected = context.inputs.size() > 5;
  const PreparedRounding<S> rounding(context, step.rounding);
  return make_device_kernel(device, [=](const Launcher& launch, const KernelCall& call) {
    launch(over_packs<kPack<T>>(size),
           Adam<T, S>{rounding.of(call, kPack<T>), call.input<T>(0), call.input<A>(1), call.input<S>(2),
                      call.input<S>(3), call.input<A>(4), corrected ? call.input<A>(5) : nullptr,
                      corrected ? call.input<A>(6) : nullptr, call.output<T>(0), call.output<S>(1),
                      call.output<S>(2), static_cast<A>(options.beta1), static_cast<A>(1 - options.beta1),
                      static_cast<A>(options.beta2), static_cast<A>(1 - options.beta2),
                      static_cast<A>(options.epsilon), static_cast<A>(options.weight_decay), size});
  });
}

template <class T>
std::unique_ptr<Kernel> adam_kernel(const KernelContext& context, Device& device) {
  return visit_slot_type<T>(context.inputs[2].dtype, [&]<class S>(std::type_identity<S>) {
    return adam_kernel_of<T, S>(context, device);
  });
}

/// The number of scalars that one launch examines: their pointers are its parameters.
constexpr int kScalars = 256;

/// Runs in a single block.
template <class T>
struct AllFinite {
  const T* scalars[kScalars];
  int count;
  bool* result;
  bool continues;  ///< combines with the result of earlier scalars

  MTF_DEVICE void operator()(const Block& block) const {
    int finite = continues ? *result : 1;
    for (int i = block.thread(); i < count; i += block.threads()) {
      const Computed<T> value = widen(*scalars[i]);
      finite &= value - value == 0;  // neither infinite nor NaN
    }
    finite = reduce_block(block, finite, Min{}, block.shared<int>());
    if (block.thread() == 0) *result = finite != 0;
  }
};

template <class T>
std::unique_ptr<Kernel> all_finite_kernel(const KernelContext& context, Device& device) {
  const int inputs = static_cast<int>(context.inputs.size());
  return make_device_kernel(device, [inputs](const Launcher& launch, const KernelCall& call) {
    for (int first = 0; first < inputs; first += kScalars) {
      AllFinite<T> part{{}, std::min(kScalars, inputs - first), call.output<bool>(0), first > 0};
      for (int i = 0; i < part.count; ++i) part.scalars[i] = call.input<T>(first + i);
      constexpr int kThreads = 128;
      launch({1, kThreads, kThreads / kWarp * static_cast<int64_t>(sizeof(int))}, part);
    }
  });
}

template <class T>
struct OptimizerKernels {
  static constexpr DType dtype = DTypeOf<T>::value;
  DeviceKernelRegistration sgd{"sgd_update", {dtype}, sgd_kernel<T>};
  DeviceKernelRegistration momentum{"momentum_update", {dtype}, momentum_kernel<T>};
  DeviceKernelRegistration adam{"adam_update", {dtype}, adam_kernel<T>};
  DeviceKernelRegistration all_finite{"all_finite", {dtype}, all_finite_kernel<T>};
};
const OptimizerKernels<float> optimizer_updates_f32;
const OptimizerKernels<double> optimizer_updates_f64;
const OptimizerKernels<BFloat16> optimizer_updates_bf16;

}  // namespace
}  // namespace mtf::cuda
