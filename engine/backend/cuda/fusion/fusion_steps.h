// The steps of a fusion of elementwise operations (engine/ops/fused_elementwise.h): functions from stored
// values to stored values, with the results of the operations' own kernels: formulas say what is contracted
// (Math::multiply_add), and no compiler contracts anything else (--fmad=false). Like walk.h, this is text for
// every compiler: kernels are generated from it (fusion_source.h), and the emulator interprets fusions with
// it.
#pragma once

#include <type_traits>

#include "engine/backend/cuda/device/batch_of.h"
#include "engine/backend/cuda/device/noise.h"
#include "engine/backend/cuda/device/walk.h"
#include "engine/backend/cuda/elementwise/formulas.h"
#include "engine/backend/element.h"

namespace mtf::cuda {

inline constexpr int kMostFusionInputs = 8, kMostFusionOutputs = 3, kMostFusionParameters = 24;

/// The arguments of a kernel. They are followed by a Strided<1> for each input that is not read as the
/// outputs are written, and by a FusionDropout for each dropout.
struct FusionArguments {
  const void* inputs[kMostFusionInputs];
  void* outputs[kMostFusionOutputs];
  int64_t size;
  double parameters[kMostFusionParameters];
  bool packs;  ///< whole packs of elements can be loaded
};

struct FusionDropout {
  Noise noise;
  uint32_t threshold;
};

namespace steps {

template <class F, class T>
MTF_DEVICE T unary(T x, double parameter) {
  return narrow<T>(F::f(widen(x), static_cast<Computed<T>>(parameter)));
}
/// The gradient, from dy and from v, which is x or y.
template <class F, class T>
MTF_DEVICE T gradient(T dy, T v, double parameter) {
  return narrow<T>(F::g(widen(dy), widen(v), static_cast<Computed<T>>(parameter)));
}
/// R is T or bool.
template <class F, class R, class T>
MTF_DEVICE R binary(T a, T b) {
  return narrow<R>(F::f(widen(a), widen(b)));
}
template <class To, class From>
MTF_DEVICE To cast(From x) {
  return narrow<To>(widen(x));
}
template <class T>
MTF_DEVICE T where(bool condition, T a, T b) {
  return condition ? a : b;
}
template <class T>
MTF_DEVICE T dropout(T x, uint32_t bits, uint32_t threshold, double scale) {
  return dropped(x, bits, threshold, static_cast<Computed<T>>(scale));
}

}  // namespace steps
}  // namespace mtf::cuda

/// Defines the kernel `name` of the function object mtf::cuda::name::Kernel, for NVRTC, or on the host for
/// tests of the text.
#if defined(__CUDACC__)
#define MTF_FUSION_KERNEL(name)                                                         \
  extern "C" __global__ void __launch_bounds__(256)                                     \
      name(const __grid_constant__ mtf::cuda::name::Kernel fusion, const bool* guard) { \
    if (guard == nullptr || *guard) fusion(mtf::cuda::Block());                         \
  }
#else
#define MTF_FUSION_KERNEL(name)                                             \
  extern "C" void name(const void* fusion, const mtf::cuda::Block* block) { \
    (*static_cast<const mtf::cuda::name::Kernel*>(fusion))(*block);         \
  }
#endif
