// Kernels from the formulas of component-wise functions and their gradients.
#pragma once

#include <memory>
#include <string_view>

#include "engine/backend/cuda/device/device_kernel.h"
#include "engine/backend/cuda/device/indexing.h"
#include "engine/backend/cuda/elementwise/formulas.h"
#include "engine/backend/element.h"
#include "engine/backend/visit_type.h"
#include "engine/base/check.h"
#include "engine/ops/component_wise.h"

namespace mtf::cuda {

/// y = F::f(x, parameter), or dx = F::g(dy, x or y, parameter).
template <class F, class T, int kInputs>
struct ComponentWiseMap {
  const T* inputs[kInputs];
  T* output;
  int64_t size;
  Computed<T> parameter;

  MTF_DEVICE void operator()(const Block& block) const {
    for_each_part<kPack<T>>(block, size, true, [&](int64_t first, bool pack) {
      pack ? apply<kPack<T>>(first) : apply<1>(first);
    });
  }
  template <int N>
  MTF_DEVICE void apply(int64_t first) const {
    Pack<T, N> in[kInputs], out;
    MTF_UNROLL(kInputs)
    for (int k = 0; k < kInputs; ++k) in[k] = load<N>(inputs[k] + first);
    MTF_UNROLL(N)
    for (int i = 0; i < N; ++i) {
      if constexpr (kInputs == 1) {
        out[i] = narrow<T>(F::f(widen(in[0][i]), parameter));
      } else {
        out[i] = narrow<T>(F::g(widen(in[0][i]), widen(in[1][i]), parameter));
      }
    }
    store(output + first, out);
  }
};

template <class F, class T, int kInputs = 1>
std::unique_ptr<Kernel> component_wise_kernel(const KernelContext& context, Device& device) {
  using Operation = std::conditional_t<kInputs == 1, ComponentWise, ComponentWiseGradient>;
  for (const LocalTensor& input : context.inputs) {
    MTF_CHECK(input.strides == context.outputs[0].strides, "{}: operands in different memory orders",
              context.operation.name());
  }
  ComponentWiseMap<F, T, kInputs> map{};
  map.size = context.outputs[0].local.size();
  map.parameter = static_cast<Computed<T>>(static_cast<const Operation&>(context.operation).parameter);
  return make_device_kernel(device, [map](const Launcher& launch, const KernelCall& call) {
    ComponentWiseMap<F, T, kInputs> body = map;
    for (size_t k = 0; k < kInputs; ++k) body.inputs[k] = call.input<T>(k);
    body.output = call.output<T>(0);
    launch(over_packs<kPack<T>>(body.size), body);
  });
}

template <class F, int kInputs>
DeviceKernelRegistration floating_function(std::string_view name) {
  return {name, kFloatingTypes, [](const KernelContext& context, Device& device) {
            return visit_floating_type(context.inputs[0].dtype, [&]<class T>(std::type_identity<T>) {
              return component_wise_kernel<F, T, kInputs>(context, device);
            });
          }};
}

/// Of floating types.
template <class F>
DeviceKernelRegistration component_wise(std::string_view name) {
  return floating_function<F, 1>(name);
}
template <class F>
DeviceKernelRegistration component_wise_gradient(std::string_view name) {
  return floating_function<F, 2>(name);
}

}  // namespace mtf::cuda
