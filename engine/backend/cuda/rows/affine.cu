// x * scale + shift and x * scale + y * weight + shift (engine/ops/affine.h), and the first of them for statistics_norm.
#include "engine/backend/cuda/device/device_kernel.h"
#include "engine/backend/cuda/device/element_walk.h"
#include "engine/backend/element.h"

namespace mtf::cuda {
namespace {

template <class T, int N>
struct AffineElements {
  using C = Computed<T>;
  const T *x, *y;  ///< y may be null
  const C *scale, *shift, *weight;
  T* out;
  int64_t steps;
  Strided<1> coefficients;  ///< strides of the coefficients along the elements of x

  MTF_DEVICE void operator()(const Block& block) const {
    for (int64_t i = block.first(); i < steps; i += block.stride()) {
      const int64_t first = i * N, at = coefficients.at(first)[0];
      const auto coefficient = [&](const C* data) { return load_along<N>(coefficients, data + at); };
      const Pack<T, N> xs = load<N>(x + first);
      const Pack<C, N> scales = coefficient(scale);
      Pack<C, N> sums = coefficient(shift);
      if (y != nullptr) {
        const Pack<T, N> ys = load<N>(y + first);
        const Pack<C, N> weights = coefficient(weight);
        MTF_UNROLL(N)
        for (int n = 0; n < N; ++n) sums[n] += widen(ys[n]) * weights[n];
      }
      Pack<T, N> result;
      MTF_UNROLL(N)
      for (int n = 0; n < N; ++n) result[n] = narrow<T>(widen(xs[n]) * scales[n] + sums[n]);
      store(out + first, result);
    }
  }
};

/// Whether wherever `count` elements of x are contiguous, the coefficients are too, or are all the same.
bool coefficients_in_packs(const Strided<1>& walk, int64_t count) {
  return walk.inner_stride(0) == 0 ? walk.inner_size() % count == 0 : walk.in_packs(0, count);
}

template <class T>
std::unique_ptr<Kernel> affine_kernel(const KernelContext& context, Device& device) {
  using C = Computed<T>;
  const LocalTensor &x = context.inputs[0], &scale = context.inputs[1];
  MTF_CHECK(x.strides == x.local.strides(), "{} is not row-major", x.local.to_string());
  StridedAxes<1> axes;
  for (int a = 0; a < x.global.rank(); ++a) {
    const auto axis = scale.global.find(x.global[a].name);
    axes.push_back({x.local[a].size, {axis ? scale.strides[static_cast<size_t>(*axis)] : 0}});
  }
  const Strided<1> walk(axes);
  const bool second = context.operation.name() == "affine" && context.inputs.size() == 5;
  const auto kernel = [&]<int N>(std::integral_constant<int, N>) -> std::unique_ptr<Kernel> {
    return make_device_kernel(device, [walk, second](const Launcher& launch, const KernelCall& call) {
      const int64_t steps = walk.size() / N;
      launch(over(steps, N == 1 ? kElementsPerThread : 1),
             AffineElements<T, N>{call.input<T>(0), second ? call.input<T>(3) : nullptr, call.input<C>(1),
                                  call.input<C>(2), second ? call.input<C>(4) : nullptr, call.output<T>(0),
                                  steps, walk});
    });
  };
  if constexpr (!std::is_same_v<T, double>) {
    if (coefficients_in_packs(walk, kPack<T>)) return kernel(std::integral_constant<int, kPack<T>>());
  }
  return kernel(std::integral_constant<int, 1>());
}

template <class T>
struct AffineKernels {
  static constexpr DType dtype = DTypeOf<T>::value;
  DeviceKernelRegistration affine{"affine", {dtype}, affine_kernel<T>};
  DeviceKernelRegistration norm{"statistics_norm", {dtype}, affine_kernel<T>};
};
const AffineKernels<float> affine_f32;
const AffineKernels<BFloat16> affine_bf16;
const AffineKernels<double> affine_f64;

}  // namespace
}  // namespace mtf::cuda
