// Kernels of the functions of engine/ops/unary.h whose gradient is not a single kernel.
#include "engine/backend/cuda/elementwise/unary.h"

namespace mtf::cuda {
namespace {

using mtf::formulas::kBools, mtf::formulas::kFloats, mtf::formulas::kIntegers;

template <class F>
struct UnaryRegistration {
  explicit UnaryRegistration(std::string_view name) {
    if constexpr (!kHasGradient<F>) {
      if constexpr ((F::kOperands & kFloats) != 0) register_floats<F>(name);
      if constexpr ((F::kOperands & kIntegers) != 0)
        DeviceKernelRegistration(name, {DType::kInt32, DType::kInt64}, integers);
      if constexpr ((F::kOperands & kBools) != 0)
        DeviceKernelRegistration(name, {DType::kBool}, unary_kernel<F, bool>);
    }
  }

  static std::unique_ptr<Kernel> integers(const KernelContext& context, Device& device) {
    return visit_integer_type(context.inputs[0].dtype, [&]<class T>(std::type_identity<T>) {
      return unary_kernel<F, T>(context, device);
    });
  }
};

#define MTF_REGISTER(Formula, name) const UnaryRegistration<formulas::Formula> name##_kernels(#name);
MTF_UNARY_FUNCTIONS(MTF_REGISTER)
#undef MTF_REGISTER

}  // namespace
}  // namespace mtf::cuda
