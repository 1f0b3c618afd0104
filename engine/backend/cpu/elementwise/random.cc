// Dropout and random tensors. Philox makes four numbers at a time. Where the noise of a run is contiguous,
// all blocks of a piece of the run are computed in one vectorised loop (about 1 ns per element with AVX-512),
// and the piece stays in L1. Elsewhere each element computes its own block.
#include "engine/core/random.h"

#include <algorithm>
#include <cmath>

#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/backend/element.h"
#include "engine/backend/noise_index.h"
#include "engine/base/dispatch.h"
#include "engine/ops/random.h"

namespace mtf {
namespace {

/// The elements of a piece.
constexpr int64_t kPiece = 1024;

/// Computes the bits of elements 4 * block .. 4 * (block + blocks) - 1.
MTF_INLINE void fill_blocks(uint32_t* bits, RandomStream stream, uint64_t step, PhiloxKey key, uint64_t block,
                            int64_t blocks) {
  for (int64_t b = 0; b < blocks; ++b) {
    const PhiloxBlock words = philox(philox_counter(stream, step, block + static_cast<uint64_t>(b)), key);
    for (int i = 0; i < 4; ++i) bits[4 * b + i] = words.words[i];
  }
}

/// Calls visit(begin, bits, count) for pieces of elements [begin, end) of a slice. Consecutive runs may share
/// their noise (they differ only in dimensions outside the noise shape), so the bits of the last piece are
/// kept.
template <class Visit>
void for_each_piece(const NoiseIndex& index, RandomStream stream, PhiloxKey key, const KernelCall& call,
                    int64_t begin, int64_t end, Visit visit) {
  alignas(64) uint32_t bits[kPiece + 8];
  const auto train_step = static_cast<int64_t>(*call.step);
  const int64_t step = index.run_step();
  int64_t held_first = -1, held_count = 0;
  const auto visit_piece = [&](int64_t at, int64_t count, int64_t first) {
    const int64_t lead = step == 1 ? first % 4 : 0;
    if (first != held_first || count > held_count) {
      if (step == 1) {
        dispatched<fill_blocks>(bits, stream, *call.step, key, static_cast<uint64_t>(first / 4),
                                (lead + count + 3) / 4);
      } else if (step == 0) {
        std::fill(bits, bits + count, random_bits(key, stream, train_step, first));
      } else {
        for (int64_t i = 0; i < count; ++i) bits[i] = random_bits(key, stream, train_step, first + i * step);
      }
      held_first = first;
      held_count = count;
    }
    visit(at, bits + lead, count);
  };
  index.for_each_run(call.outputs[0].begin, call.iteration, begin, end,
                     [&](int64_t at, int64_t count, int64_t noise) {
                       for (int64_t done = 0; done < count; done += kPiece) {
                         visit_piece(at + done, std::min(kPiece, count - done), noise + done * step);
                       }
                     });
}

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
