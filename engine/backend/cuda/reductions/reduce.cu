// Kernels of engine/ops/reduce.h except reduce_first and sum_of_squares.
#include "engine/backend/cuda/reductions/reduce_kernels.h"
#include "engine/backend/visit_type.h"
#include "engine/ops/reduce.h"

namespace mtf::cuda {
namespace {

/// A reduction for the types used in training: reads rows in packs, and columns too if InPacks.
template <class R, class T, bool InPacks>
std::unique_ptr<Kernel> fast_reduction(const KernelContext& context, Device& device) {
  const ReductionWalk walk = walk_of(context);
  if (walk.fast_is_reduced) return row_reduction<R, T>(context, device);
  if constexpr (InPacks) {
    if (walk.kept.in_packs(0, kPack<T>)) return column_reduction<R, T, kPack<T>>(context, device);
  }
  return column_reduction<R, T, 1>(context, device);
}

template <template <class> class R, class... Types>
std::unique_ptr<Kernel> plain_reduction(const KernelContext& context, Device& device) {
  return visit_type<Types...>(context.inputs[0].dtype, [&]<class T>(std::type_identity<T>) {
    return column_reduction<R<T>, T, 1>(context, device);
  });
}

template <template <class> class R, bool InPacks>
std::unique_ptr<Kernel> reduction(const KernelContext& context, Device& device) {
  const DType dtype = context.inputs[0].dtype;
  if (dtype != DType::kBFloat16 && dtype != DType::kFloat32)
    return plain_reduction<R, double, int32_t, int64_t>(context, device);
  return visit_type<float, BFloat16>(dtype, [&]<class T>(std::type_identity<T>) {
    return fast_reduction<R<T>, T, InPacks>(context, device);
  });
}

const DeviceKernelRegistration reduce_kernels[] = {
    {"reduce_sum", kNumberTypes, reduction<reductions::Sum, true>},
    {"reduce_max", kNumberTypes, reduction<reductions::Max, false>},
    {"reduce_min", kNumberTypes, plain_reduction<reductions::Min, float, BFloat16, double, int32_t, int64_t>},
    {"reduce_all", {DType::kBool}, column_reduction<reductions::All<bool>, bool, 1>},
    {"reduce_any", {DType::kBool}, column_reduction<reductions::Any<bool>, bool, 1>},
};

}  // namespace
}  // namespace mtf::cuda
