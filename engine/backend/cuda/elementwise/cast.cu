// The kernel of `cast`, for every pair of element types.
#include <type_traits>

#include "engine/backend/cuda/device/device_kernel.h"
#include "engine/backend/cuda/device/element_walk.h"
#include "engine/backend/element.h"
#include "engine/backend/visit_type.h"
#include "engine/ops/cast.h"

namespace mtf::cuda {
namespace {

template <class From, class To>
struct Convert {
  /// Weights are cast together.
  static constexpr bool kBatched = std::is_same_v<From, float> && std::is_same_v<To, BFloat16>;

  const From* x;
  To* y;
  int64_t size;

  MTF_DEVICE void operator()(const Block& block) const {
    for_each_part<kPack<From, To>>(block, size, true, [&](int64_t first, bool pack) {
      pack ? convert<kPack<From, To>>(first) : convert<1>(first);
    });
  }
  template <int N>
  MTF_DEVICE void convert(int64_t first) const {
    const Pack<From, N> from = load<N>(x + first);
    Pack<To, N> to;
    MTF_UNROLL(N)
    for (int i = 0; i < N; ++i) to[i] = narrow<To>(widen(from[i]));
    store(y + first, to);
  }
};

template <class From, class To>
std::unique_ptr<Kernel> cast_kernel(const KernelContext& context, Device& device) {
  const int64_t size = context.outputs[0].local.size();
  return make_device_kernel(device, [size](const Launcher& launch, const KernelCall& call) {
    launch(over_packs<kPack<From, To>>(size),
           Convert<From, To>{call.input<From>(0), call.output<To>(0), size});
  });
}

template <class From>
std::unique_ptr<Kernel> cast_from(const KernelContext& context, Device& device) {
  return visit_any_type(context.outputs[0].dtype, [&]<class To>(std::type_identity<To>) {
    return cast_kernel<From, To>(context, device);
  });
}

const DeviceKernelRegistration cast_kernels[] = {
    {"cast", {DType::kFloat32}, cast_from<float>},  {"cast", {DType::kBFloat16}, cast_from<BFloat16>},
    {"cast", {DType::kFloat64}, cast_from<double>}, {"cast", {DType::kInt32}, cast_from<int32_t>},
    {"cast", {DType::kInt64}, cast_from<int64_t>},  {"cast", {DType::kBool}, cast_from<bool>},
};

}  // namespace
}  // namespace mtf::cuda
