// The kernel of `broadcast`, which moves elements of any type.
#include "engine/backend/cuda/device/device_kernel.h"
#include "engine/backend/cuda/elementwise/broadcast_operand.h"

namespace mtf::cuda {
namespace {

template <class T>
struct Repeated {
  BroadcastOperand<T> x;
  T* y;
  int64_t size;
  bool packs;

  MTF_DEVICE void operator()(const Block& block) const {
    for_each_part<kPack<T>>(block, size, packs, [&](int64_t first, bool pack) {
      const T* from = x.at(first);
      pack ? store(y + first, x.template load<kPack<T>>(from)) : store(y + first, x.template load<1>(from));
    });
  }
};

template <class T>
std::unique_ptr<Kernel> broadcast_kernel(const KernelContext& context, Device& device) {
  const BroadcastOperand<T> x(context, 0);
  const int64_t size = context.outputs[0].local.size();
  const bool packs = x.in_packs(kPack<T>);
  const LaunchShape shape = packs ? over_packs<kPack<T>>(size) : over(size);
  return make_device_kernel(device, [=](const Launcher& launch, const KernelCall& call) {
    launch(shape, Repeated<T>{x.with(call, 0), call.output<T>(0), size, packs});
  });
}

const DeviceKernelRegistration broadcast_any("broadcast", kAllTypes,
                                             [](const KernelContext& context, Device& device) {
                                               return with_element(
                                                   size_of(context.outputs[0].dtype), [&]<class T>(T) {
                                                     return broadcast_kernel<T>(context, device);
                                                   });
                                             });

}  // namespace
}  // namespace mtf::cuda
