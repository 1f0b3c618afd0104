#include "engine/ops/stochastic_cast.h"

#include "engine/backend/cpu/elementwise/noise_pieces.h"
#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/core/stochastic_rounding.h"

namespace mtf {
namespace {

MTF_INLINE void round_block(const float* x, BFloat16* y, const uint32_t* bits, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = round_stochastically(x[i], bits[i]);
}

std::unique_ptr<Kernel> stochastic_cast_kernel(const KernelContext& context) {
  const RandomSource& source = static_cast<const StochasticCast&>(context.operation).source;
  const PhiloxKey key = random_key(source.name, context.seed);
  const NoiseIndex index(context.outputs[0], context.outputs[0].global, source.microbatching,
                         source.first_element);
  return make_kernel(context.outputs[0].local.size(), kElementsPerTask,
                     [=](const KernelCall& call, int64_t begin, int64_t end) {
                       for_each_piece(index, RandomStream::kRounding, key, call, begin, end,
                                      [&](int64_t at, const uint32_t* bits, int64_t n) {
                                        dispatched<round_block>(call.input<float>(0) + at,
                                                                call.output<BFloat16>(0) + at, bits, n);
                                      });
                     });
}

const KernelRegistration stochastic_cast_f32("stochastic_cast", {DType::kFloat32}, stochastic_cast_kernel);

}  // namespace
}  // namespace mtf
