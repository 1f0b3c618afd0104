// Kernels of engine/ops/reduce.h, but for reduce_first.
#include "engine/backend/cuda/reduce_kernels.h"
#include "engine/ops/reduce.h"

namespace mtf::cuda {
namespace {

/// Of the types of training: rows in packs, and columns, if InPacks.
template <class R, class T, bool InPacks>
std::unique_ptr<Kernel> fast_reduction(const KernelContext& context, Device& device) {
  const ReductionWalk walk = walk_of(context);
  if (walk.fast_is_reduced) return row_reduction<R, T>(context, device);
  if constexpr (InPacks) {
    if (walk.kept.in_packs(0, kPack<T>)) return column_reduction<R, T, kPack<T>>(context, device);
  }
  return column_reduction<R, T, 1>(context, device);
}

template <template <class> class R>
std::unique_ptr<Kernel> plain_reduction(const KernelContext& context, Device& device) {
  switch (context.inputs[0].dtype) {
    case DType::kBFloat16:
      return column_reduction<R<BFloat16>, BFloat16, 1>(context, device);
    case DType::kFloat64:
      return column_reduction<R<double>, double, 1>(context, device);
    case DType::kInt32:
      return column_reduction<R<int32_t>, int32_t, 1>(context, device);
    case DType::kInt64:
      return column_reduction<R<int64_t>, int64_t, 1>(context, device);
    default:
      return column_reduction<R<float>, float, 1>(context, device);
  }
}

template <template <class> class R, bool InPacks>
std::unique_ptr<Kernel> reduction(const KernelContext& context, Device& device) {
  switch (context.inputs[0].dtype) {
    case DType::kBFloat16:
      return fast_reduction<R<BFloat16>, BFloat16, InPacks>(context, device);
    case DType::kFloat32:
      return fast_reduction<R<float>, float, InPacks>(context, device);
    default:
      return plain_reduction<R>(context, device);
  }
}

std::unique_ptr<Kernel> sum_of_squares(const KernelContext& context, Device& device) {
  using reductions::SumOfSquares;
  switch (context.inputs[0].dtype) {
    case DType::kBFloat16:
      return row_reduction<SumOfSquares<BFloat16>, BFloat16>(context, device);
    case DType::kFloat64:
      return row_reduction<SumOfSquares<double>, double>(context, device);
    default:
      return row_reduction<SumOfSquares<float>, float>(context, device);
  }
}

const std::initializer_list<DType> kNumbers = {DType::kFloat32, DType::kBFloat16, DType::kFloat64,
                                               DType::kInt32, DType::kInt64};
const DeviceKernelRegistration registrations[] = {
    {"reduce_sum", kNumbers, reduction<reductions::Sum, true>},
    {"reduce_max", kNumbers, reduction<reductions::Max, false>},
    {"reduce_min", kNumbers, plain_reduction<reductions::Min>},
    {"reduce_all", {DType::kBool}, column_reduction<reductions::All<bool>, bool, 1>},
    {"reduce_any", {DType::kBool}, column_reduction<reductions::Any<bool>, bool, 1>},
    {"sum_of_squares", {DType::kFloat32, DType::kBFloat16, DType::kFloat64}, sum_of_squares},
};

}  // namespace
}  // namespace mtf::cuda
