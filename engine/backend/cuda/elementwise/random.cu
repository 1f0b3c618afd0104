// Dropout and random tensors. Where the layout of the noise allows it, a thread computes the numbers of four
// adjacent elements (eight of bfloat16) at once, one Philox block for every four. Both have the same bits in
// every backend: random tensors are computed in double by engine/core/quantiles.h and rounded once.
#include <algorithm>

#include "engine/backend/cuda/device/device_kernel.h"
#include "engine/backend/cuda/device/element_walk.h"
#include "engine/backend/cuda/device/noise.h"
#include "engine/core/quantiles.h"
#include "engine/ops/random.h"

namespace mtf::cuda {
namespace {

/// The elements of a thread: whole Philox blocks.
template <class T>
inline constexpr int kNumbers = std::max(4, kPack<T>);

template <class T>
struct Drop {
  Noise noise;
  const T* x;
  T* y;
  int64_t size;
  uint32_t threshold;
  Computed<T> scale;
  bool packs;

  MTF_DEVICE void operator()(const Block& block) const {
    for_each_part<kNumbers<T>>(block, size, packs, [&](int64_t first, bool pack) {
      pack ? drop<kNumbers<T>>(first) : drop<1>(first);
    });
  }
  template <int N>
  MTF_DEVICE void drop(int64_t first) const {
    Pack<T, N> pack = load<N>(x + first);
    const Pack<uint32_t, N> bits = noise.bits<N>(first);
    MTF_UNROLL(N)
    for (int i = 0; i < N; ++i) pack[i] = dropped(pack[i], bits[i], threshold, scale);
    store(y + first, pack);
  }
};

template <class T>
std::unique_ptr<Kernel> dropout_kernel(const KernelContext& context, Device& device) {
  const auto& operation = static_cast<const Dropout&>(context.operation);
  const uint32_t threshold = dropout_threshold(operation.rate);
  const auto scale = static_cast<Computed<T>>(std::is_integral_v<T> ? 1.0 : 1 / (1 - operation.rate));
  const NoiseIndex index(context.outputs[0], operation.noise_shape, operation.source.microbatching);
  const Noise prepared(index, RandomStream::kDropout, random_key(operation.source.name, context.seed));
  const int64_t size = context.outputs[0].local.size();
  return make_device_kernel(device, [=](const Launcher& launch, const KernelCall& call) {
    const Noise noise = prepared.with(call, index.origin(call.outputs[0].begin, call.iteration));
    const bool packs = noise.in_packs(kNumbers<T>);
    launch(packs ? over_packs<kNumbers<T>>(size) : over(size),
           Drop<T>{noise, call.input<T>(0), call.output<T>(0), size, threshold, scale, packs});
  });
}

MTF_DEVICE double sample(const Distribution& distribution, double u) {
  switch (distribution.kind) {
    case Distribution::Kind::kUniform:
      return distribution.a + (distribution.b - distribution.a) * u;
    case Distribution::Kind::kNormal:
      return distribution.a + distribution.b * normal_quantile(u);
    default:
      return distribution.a + distribution.b * gumbel_quantile(u);
  }
}

template <class T>
struct Sample {
  Noise noise;
  Distribution distribution;
  T* y;
  int64_t size;
  bool packs;

  MTF_DEVICE void operator()(const Block& block) const {
    for_each_part<4>(block, size, packs,
                     [&](int64_t first, bool pack) { pack ? draw<4>(first) : draw<1>(first); });
  }
  template <int N>
  MTF_DEVICE void draw(int64_t first) const {
    const Pack<uint32_t, N> bits = noise.bits<N>(first);
    Pack<T, N> pack;
    MTF_UNROLL(N)
    for (int i = 0; i < N; ++i) pack[i] = narrow<T>(sample(distribution, uniform_from_bits(bits[i])));
    store(y + first, pack);
  }
};

template <class T>
std::unique_ptr<Kernel> random_kernel(const KernelContext& context, Device& device) {
  const auto& operation = static_cast<const Random&>(context.operation);
  const LocalTensor& output = context.outputs[0];
  const NoiseIndex index(output, output.global, operation.source.microbatching);
  const Noise prepared(index, RandomStream::kSampling, random_key(operation.source.name, context.seed));
  const int64_t size = output.local.size();
  return make_device_kernel(
      device, [=, distribution = operation.distribution](const Launcher& launch, const KernelCall& call) {
        const Noise noise = prepared.with(call, index.origin(call.outputs[0].begin, call.iteration));
        const bool packs = noise.in_packs(4);
        launch(packs ? over_packs<4>(size) : over(size),
               Sample<T>{noise, distribution, call.output<T>(0), size, packs});
      });
}

const DeviceKernelRegistration random_kernels[] = {
    {"dropout", {DType::kFloat32}, dropout_kernel<float>},
    {"dropout", {DType::kBFloat16}, dropout_kernel<BFloat16>},
    {"dropout", {DType::kFloat64}, dropout_kernel<double>},
    {"dropout", {DType::kInt32}, dropout_kernel<int32_t>},
    {"random_uniform", {DType::kFloat32}, random_kernel<float>},
    {"random_uniform", {DType::kBFloat16}, random_kernel<BFloat16>},
    {"random_uniform", {DType::kFloat64}, random_kernel<double>},
    {"random_normal", {DType::kFloat32}, random_kernel<float>},
    {"random_normal", {DType::kBFloat16}, random_kernel<BFloat16>},
    {"random_normal", {DType::kFloat64}, random_kernel<double>},
    {"random_gumbel", {DType::kFloat32}, random_kernel<float>},
    {"random_gumbel", {DType::kBFloat16}, random_kernel<BFloat16>},
    {"random_gumbel", {DType::kFloat64}, random_kernel<double>},
};

}  // namespace
}  // namespace mtf::cuda
