// Kernels from the formulas of component-wise functions and their gradients.
#pragma once

#include <memory>
#include <string_view>

#include "engine/backend/cuda/device_kernel.h"
#include "engine/backend/cuda/elementwise/formulas.h"
#include "engine/backend/cuda/indexing.h"
#include "engine/backend/element.h"
#include "engine/backend/visit_type.h"
#include "engine/core/check.h"
#include "engine/ops/component_wise.h"

namespace mtf::cuda {

/// y = F::f(x, parameter).
template <class F, class T>
struct ComponentWiseMap {
  const T* x;
  T* y;
  int64_t size;
  Computed<T> parameter;

  MTF_DEVICE void operator()(const Block& block) const {
    for_each_part<kPack<T>>(block, size, true, [&](int64_t first, bool pack) {
      pack ? apply<kPack<T>>(first) : apply<1>(first);
    });
  }
  template <int N>
  MTF_DEVICE void apply(int64_t first) const {
    Pack<T, N> pack = load<N>(x + first);
    MTF_UNROLL(N)
    for (int i = 0; i < N; ++i) pack[i] = narrow<T>(F::f(widen(pack[i]), parameter));
    store(y + first, pack);
  }
};

/// dx = F::g(dy, x or y, parameter).
template <class F, class T>
struct ComponentWiseGradientMap {
  const T *dy, *x_or_y;
  T* dx;
  int64_t size;
  Computed<T> parameter;

  MTF_DEVICE void operator()(const Block& block) const {
    for_each_part<kPack<T>>(block, size, true, [&](int64_t first, bool pack) {
      pack ? apply<kPack<T>>(first) : apply<1>(first);
    });
  }
  template <int N>
  MTF_DEVICE void apply(int64_t first) const {
    Pack<T, N> pack = load<N>(dy + first);
    const Pack<T, N> v = load<N>(x_or_y + first);
    MTF_UNROLL(N)
    for (int i = 0; i < N; ++i) pack[i] = narrow<T>(F::g(widen(pack[i]), widen(v[i]), parameter));
    store(dx + first, pack);
  }
};

inline void check_orders(const KernelContext& context) {
  for (const LocalTensor& input : context.inputs) {
    MTF_CHECK(input.strides == context.outputs[0].strides, "{}: operands in different memory orders",
              context.operation.name());
  }
}

template <class F, class T>
std::unique_ptr<Kernel> component_wise_kernel(const KernelContext& context, Device& device) {
  check_orders(context);
  const int64_t size = context.outputs[0].local.size();
  const auto p = static_cast<Computed<T>>(static_cast<const ComponentWise&>(context.operation).parameter);
  return make_device_kernel(device, [=](const Launcher& launch, const KernelCall& call) {
    launch(over_packs<kPack<T>>(size), ComponentWiseMap<F, T>{call.input<T>(0), call.output<T>(0), size, p});
  });
}

template <class F, class T>
std::unique_ptr<Kernel> component_wise_gradient_kernel(const KernelContext& context, Device& device) {
  check_orders(context);
  const int64_t size = context.outputs[0].local.size();
  const auto p =
      static_cast<Computed<T>>(static_cast<const ComponentWiseGradient&>(context.operation).parameter);
  return make_device_kernel(device, [=](const Launcher& launch, const KernelCall& call) {
    launch(over_packs<kPack<T>>(size),
           ComponentWiseGradientMap<F, T>{call.input<T>(0), call.input<T>(1), call.output<T>(0), size, p});
  });
}

/// Of floating types.
template <class F>
DeviceKernelRegistration component_wise(std::string_view name) {
  return {name,
          {DType::kFloat32, DType::kBFloat16, DType::kFloat64},
          [](const KernelContext& context, Device& device) {
            return visit_floating_type(context.inputs[0].dtype, [&]<class T>(std::type_identity<T>) {
              return component_wise_kernel<F, T>(context, device);
            });
          }};
}

template <class F>
DeviceKernelRegistration component_wise_gradient(std::string_view name) {
  return {name,
          {DType::kFloat32, DType::kBFloat16, DType::kFloat64},
          [](const KernelContext& context, Device& device) {
            return visit_floating_type(context.inputs[0].dtype, [&]<class T>(std::type_identity<T>) {
              return component_wise_gradient_kernel<F, T>(context, device);
            });
          }};
}

}  // namespace mtf::cuda
