// Kernels made from the formulas of elementwise functions and their gradients.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "engine/backend/cuda/device/device_kernel.h"
#include "engine/backend/cuda/device/element_walk.h"
#include "engine/backend/cuda/elementwise/formulas.h"
#include "engine/backend/element.h"
#include "engine/backend/visit_type.h"
#include "engine/base/check.h"
#include "engine/ops/unary.h"

namespace mtf::cuda {

/// y = F::f(x, parameter), or dx = F::g(dy, x or y, parameter).
template <class F, class T, int kInputs>
struct UnaryMap {
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
std::unique_ptr<Kernel> unary_kernel(const KernelContext& context, Device& device) {
  using Operation = std::conditional_t<kInputs == 1, Unary, UnaryGradient>;
  for (const LocalTensor& input : context.inputs) {
    MTF_CHECK(input.strides == context.outputs[0].strides, "{}: operands in different memory orders",
              context.operation.name());
  }
  UnaryMap<F, T, kInputs> map{};
  map.size = context.outputs[0].local.size();
  map.parameter = static_cast<Computed<T>>(static_cast<const Operation&>(context.operation).parameter);
  return make_device_kernel(device, [map](const Launcher& launch, const KernelCall& call) {
    UnaryMap<F, T, kInputs> body = map;
    for (size_t k = 0; k < kInputs; ++k) body.inputs[k] = call.input<T>(k);
    body.output = call.output<T>(0);
    launch(over_packs<kPack<T>>(body.size), body);
  });
}

/// Registers the kernel for floating-point types.
template <class F, int kInputs = 1>
void register_floats(std::string_view name) {
  DeviceKernelRegistration(name, kFloatingTypes, [](const KernelContext& context, Device& device) {
    return visit_floating_type(context.inputs[0].dtype, [&]<class T>(std::type_identity<T>) {
      return unary_kernel<F, T, kInputs>(context, device);
    });
  });
}

template <class F>
inline constexpr bool kHasGradient = requires {
  F::kGradientOf;
};

}  // namespace mtf::cuda
