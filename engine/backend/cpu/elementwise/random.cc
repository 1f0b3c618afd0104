// Dropout and random tensors.
#include "engine/core/random.h"

#include <algorithm>
#include <cmath>

#include "engine/backend/cpu/elementwise/noise_pieces.h"
#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/backend/element.h"
#include "engine/base/dispatch.h"
#include "engine/ops/random.h"

namespace mtf {
namespace {

template <class T>
MTF_INLINE void drop(const T* x, T* y, const uint32_t* bits, int64_t n, uint32_t threshold,
                     Computed<T> scale) {
  for (int64_t i = 0; i < n; ++i) {
    const Computed<T> kept = widen(x[i]) * scale;
    y[i] = narrow<T>(bits[i] < threshold ? kept : Computed<T>{});
  }
}

/// The rate is above 0, so the threshold fits 32 bits unless the rate is below 2^-32.
template <class T>
std::unique_ptr<Kernel> dropout_kernel(const KernelContext& context) {
  const auto& operation = static_cast<const Dropout&>(context.operation);
  const double keep = 1 - operation.rate;
  const auto threshold = static_cast<uint32_t>(std::min<uint64_t>(keep_threshold(keep), UINT32_MAX));
  const auto scale = static_cast<Computed<T>>(std::is_integral_v<T> ? 1.0 : 1 / keep);
  const PhiloxKey key = random_key(operation.source.name, context.seed);
  const NoiseIndex index(context.outputs[0], operation.noise_shape, operation.source.microbatching);
  return make_kernel(context.outputs[0].local.size(), kElementsPerTask,
                     [=](const KernelCall& call, int64_t begin, int64_t end) {
                       for_each_piece(index, RandomStream::kDropout, key, call, begin, end,
                                      [&](int64_t at, const uint32_t* bits, int64_t n) {
                                        dispatched<drop<T>>(call.input<T>(0) + at, call.output<T>(0) + at,
                                                            bits, n, threshold, scale);
                                      });
                     });
}

/// The value is computed in double, without fused multiply-adds in every instruction set; the caller rounds it once.
double sample(const Distribution& distribution, double u) {
  switch (distribution.kind) {
    case Distribution::Kind::kUniform:
      return distribution.a + (distribution.b - distribution.a) * u;
    case Distribution::Kind::kNormal:
      return distribution.a + distribution.b * inverse_normal_cdf(u);
    case Distribution::Kind::kGumbel:
      return distribution.a + distribution.b * inverse_gumbel_cdf(u);
  }
  return 0;
}

template <class T>
std::unique_ptr<Kernel> random_kernel(const KernelContext& context) {
  const auto& operation = static_cast<const Random&>(context.operation);
  const Distribution distribution = operation.distribution;
  const PhiloxKey key = random_key(operation.source.name, context.seed);
  const NoiseIndex index(context.outputs[0], context.outputs[0].global, operation.source.microbatching);
  return make_kernel(context.outputs[0].local.size(), kElementsPerTask,
                     [=](const KernelCall& call, int64_t begin, int64_t end) {
                       for_each_piece(index, RandomStream::kSampling, key, call, begin, end,
                                      [&](int64_t at, const uint32_t* bits, int64_t n) {
                                        T* y = call.output<T>(0) + at;
                                        for (int64_t i = 0; i < n; ++i) {
                                          y[i] = narrow<T>(sample(distribution, uniform_from_bits(bits[i])));
                                        }
                                      });
                     });
}

const KernelRegistration dropout_f32("dropout", {DType::kFloat32}, dropout_kernel<float>);
const KernelRegistration dropout_bf16("dropout", {DType::kBFloat16}, dropout_kernel<BFloat16>);
const KernelRegistration dropout_f64("dropout", {DType::kFloat64}, dropout_kernel<double>);
const KernelRegistration dropout_i32("dropout", {DType::kInt32}, dropout_kernel<int32_t>);
const KernelRegistration uniform_f32("random_uniform", {DType::kFloat32}, random_kernel<float>);
const KernelRegistration uniform_bf16("random_uniform", {DType::kBFloat16}, random_kernel<BFloat16>);
const KernelRegistration uniform_f64("random_uniform", {DType::kFloat64}, random_kernel<double>);
const KernelRegistration normal_f32("random_normal", {DType::kFloat32}, random_kernel<float>);
const KernelRegistration normal_bf16("random_normal", {DType::kBFloat16}, random_kernel<BFloat16>);
const KernelRegistration normal_f64("random_normal", {DType::kFloat64}, random_kernel<double>);
const KernelRegistration gumbel_f32("random_gumbel", {DType::kFloat32}, random_kernel<float>);
const KernelRegistration gumbel_bf16("random_gumbel", {DType::kBFloat16}, random_kernel<BFloat16>);
const KernelRegistration gumbel_f64("random_gumbel", {DType::kFloat64}, random_kernel<double>);

}  // namespace
}  // namespace mtf
