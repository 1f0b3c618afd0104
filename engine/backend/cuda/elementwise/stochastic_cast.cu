#include "engine/backend/cuda/device/device_kernel.h"
#include "engine/backend/cuda/device/element_walk.h"
#include "engine/backend/cuda/device/slot_rounding.h"
#include "engine/ops/stochastic_cast.h"

namespace mtf::cuda {
namespace {

constexpr int kRounded = kPack<float>;

struct RoundStochastically {
  static constexpr bool kBatched = true;

  SlotRounding<BFloat16> rounding;
  const float* x;
  BFloat16* y;
  int64_t size;

  MTF_DEVICE void operator()(const Block& block) const {
    for_each_pack<kRounded>(block, size, [&](int64_t first, int count) {
      const Pack<float, kRounded> from = load<kRounded>(x + first, count);
      const Pack<uint32_t, kRounded> bits = rounding.bits<kRounded>(first, count);
      Pack<BFloat16, kRounded> to;
      MTF_UNROLL(kRounded)
      for (int i = 0; i < kRounded; ++i) to[i] = rounding.stored(from[i], bits[i]);
      store(y + first, to, count);
    });
  }
};

std::unique_ptr<Kernel> stochastic_cast_kernel(const KernelContext& context, Device& device) {
  const auto& operation = static_cast<const StochasticCast&>(context.operation);
  const int64_t size = context.outputs[0].local.size();
  const PreparedRounding<BFloat16> rounding(context, operation.source);
  return make_device_kernel(device, [=](const Launcher& launch, const KernelCall& call) {
    launch(over_packs<kRounded>(size), RoundStochastically{rounding.of(call, kRounded), call.input<float>(0),
                                                           call.output<BFloat16>(0), size});
  });
}

const DeviceKernelRegistration stochastic_cast_f32("stochastic_cast", {DType::kFloat32},
                                                   stochastic_cast_kernel);

}  // namespace
}  // namespace mtf::cuda
