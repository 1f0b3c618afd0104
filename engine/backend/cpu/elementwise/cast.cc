// The kernel of `cast`, for every pair of element types.
#include "engine/ops/cast.h"

#include "engine/backend/cpu/elementwise/element_blocks.h"
#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/backend/element.h"

namespace mtf {
namespace {

template <class From, class To>
void convert(const From* x, To* y, int64_t n) {
  if constexpr (std::is_same_v<From, BFloat16> && std::is_same_v<To, float>) {
    widen_block(x, y, n);
  } else if constexpr (std::is_same_v<From, float> && std::is_same_v<To, BFloat16>) {
    narrow_block(x, y, n);
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = narrow<To>(widen(x[i]));
  }
}

template <class From, class To>
std::unique_ptr<Kernel> cast_kernel(const KernelContext& context) {
  return make_kernel(context.outputs[0].local.size(), kElementsPerTask,
                     [](const KernelCall& call, int64_t begin, int64_t end) {
                       convert(call.input<From>(0) + begin, call.output<To>(0) + begin, end - begin);
                     });
}

template <class From>
std::unique_ptr<Kernel> cast_from(const KernelContext& context) {
  switch (context.outputs[0].dtype) {
    case DType::kFloat32:
      return cast_kernel<From, float>(context);
    case DType::kBFloat16:
      return cast_kernel<From, BFloat16>(context);
    case DType::kFloat64:
      return cast_kernel<From, double>(context);
    case DType::kInt32:
      return cast_kernel<From, int32_t>(context);
    case DType::kInt64:
      return cast_kernel<From, int64_t>(context);
    case DType::kBool:
      return cast_kernel<From, bool>(context);
    case DType::kInt8:
    case DType::kUInt8:
      break;
  }
  return nullptr;
}

const KernelRegistration registrations[] = {
    {"cast", {DType::kFloat32}, cast_from<float>},  {"cast", {DType::kBFloat16}, cast_from<BFloat16>},
    {"cast", {DType::kFloat64}, cast_from<double>}, {"cast", {DType::kInt32}, cast_from<int32_t>},
    {"cast", {DType::kInt64}, cast_from<int64_t>},  {"cast", {DType::kBool}, cast_from<bool>},
};

}  // namespace
}  // namespace mtf
