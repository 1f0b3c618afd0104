// The kernel of `where`, which moves elements of any type: elements that are not selected never enter a
// computation.
#include "engine/backend/cuda/device/device_kernel.h"
#include "engine/backend/cuda/elementwise/broadcast_operand.h"

namespace mtf::cuda {
namespace {

template <class T>
struct Select {
  BroadcastOperand<bool> condition;
  BroadcastOperand<T> a, b;
  T* y;
  int64_t size;
  bool packs;

  MTF_DEVICE void operator()(const Block& block) const {
    for_each_part<kPack<T>>(block, size, packs, [&](int64_t first, bool pack) {
      const bool* selects = condition.at(first);
      const T *from_a = a.at(first), *from_b = b.at(first);
      pack ? select<kPack<T>>(selects, from_a, from_b, y + first)
           : select<1>(selects, from_a, from_b, y + first);
    });
  }
  template <int N>
  MTF_DEVICE void select(const bool* selects, const T* from_a, const T* from_b, T* result) const {
    const Pack<bool, N> s = condition.load<N>(selects);
    const Pack<T, N> left = a.template load<N>(from_a), right = b.template load<N>(from_b);
    Pack<T, N> pack;
    MTF_UNROLL(N)
    for (int i = 0; i < N; ++i) pack[i] = s[i] ? left[i] : right[i];
    store(result, pack);
  }
};

template <class T>
std::unique_ptr<Kernel> where_kernel(const KernelContext& context, Device& device) {
  const BroadcastOperand<bool> condition(context, 0);
  const BroadcastOperand<T> a(context, 1), b(context, 2);
  const int64_t size = context.outputs[0].local.size();
  const bool packs = condition.in_packs(kPack<T>) && a.in_packs(kPack<T>) && b.in_packs(kPack<T>);
  const LaunchShape shape = packs ? over_packs<kPack<T>>(size) : over(size);
  return make_device_kernel(device, [=](const Launcher& launch, const KernelCall& call) {
    launch(shape, Select<T>{condition.with(call, 0), a.with(call, 1), b.with(call, 2), call.output<T>(0),
                            size, packs});
  });
}

const DeviceKernelRegistration where_any("where", {DType::kBool},
                                         [](const KernelContext& context, Device& device) {
                                           return with_element(
                                               size_of(context.outputs[0].dtype),
                                               [&]<class T>(T) { return where_kernel<T>(context, device); });
                                         });

}  // namespace
}  // namespace mtf::cuda
