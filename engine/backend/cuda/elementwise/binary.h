// Kernels made from the formulas of binary functions.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <type_traits>

#include "engine/backend/cuda/device/device_kernel.h"
#include "engine/backend/cuda/device/element_walk.h"
#include "engine/backend/cuda/elementwise/broadcast_operand.h"
#include "engine/backend/cuda/elementwise/formulas.h"
#include "engine/backend/element.h"
#include "engine/backend/visit_type.h"

namespace mtf::cuda {

/// The type of F's result for stored operands of type T: T or bool.
template <class F, class T>
using BinaryResult =
    std::conditional_t<std::is_same_v<decltype(F::f(Computed<T>(), Computed<T>())), bool>, bool, T>;

/// y = F::f(a, b).
template <class F, class T>
struct BinaryMap {
  static constexpr bool kBatched = std::is_same_v<F, formulas::Multiply>;
  using R = BinaryResult<F, T>;
  BroadcastOperand<T> a, b;
  R* y;
  int64_t size;
  bool packs;

  MTF_DEVICE void operator()(const Block& block) const {
    for_each_part<kPack<T>>(block, size, packs, [&](int64_t first, bool pack) {
      const T *left = a.at(first), *right = b.at(first);
      pack ? apply<kPack<T>>(left, right, y + first) : apply<1>(left, right, y + first);
    });
  }
  template <int N>
  MTF_DEVICE void apply(const T* left, const T* right, R* result) const {
    const Pack<T, N> l = a.template load<N>(left), r = b.template load<N>(right);
    Pack<R, N> pack;
    MTF_UNROLL(N)
    for (int i = 0; i < N; ++i) pack[i] = narrow<R>(F::f(widen(l[i]), widen(r[i])));
    store(result, pack);
  }
};

template <class F, class T>
std::unique_ptr<Kernel> binary_kernel(const KernelContext& context, Device& device) {
  using Map = BinaryMap<F, T>;
  const BroadcastOperand<T> a(context, 0), b(context, 1);
  const int64_t size = context.outputs[0].local.size();
  const bool packs = a.in_packs(kPack<T>) && b.in_packs(kPack<T>);
  const LaunchShape shape = packs ? over_packs<kPack<T>>(size) : over(size);
  return make_device_kernel(device, [=](const Launcher& launch, const KernelCall& call) {
    launch(shape, Map{a.with(call, 0), b.with(call, 1), call.output<typename Map::R>(0), size, packs});
  });
}

template <class F>
DeviceKernelRegistration floating_binary(std::string_view name) {
  return {name, kFloatingTypes, [](const KernelContext& context, Device& device) {
            return visit_floating_type(context.inputs[0].dtype, [&]<class T>(std::type_identity<T>) {
              return binary_kernel<F, T>(context, device);
            });
          }};
}

template <class F>
DeviceKernelRegistration integer_binary(std::string_view name) {
  return {name, {DType::kInt32, DType::kInt64}, [](const KernelContext& context, Device& device) {
            return visit_integer_type(context.inputs[0].dtype, [&]<class T>(std::type_identity<T>) {
              return binary_kernel<F, T>(context, device);
            });
          }};
}

}  // namespace mtf::cuda
