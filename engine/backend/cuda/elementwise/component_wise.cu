// Kernels of engine/ops/component_wise.h that are no activations: one pass over memory for each function.
#include "engine/backend/cuda/elementwise/component_wise.h"

namespace mtf::cuda {
namespace {

template <class F>
DeviceKernelRegistration integers(std::string_view name) {
  return {name, {DType::kInt32, DType::kInt64}, [](const KernelContext& context, Device& device) {
            return visit_integer_type(context.inputs[0].dtype, [&]<class T>(std::type_identity<T>) {
              return component_wise_kernel<F, T>(context, device);
            });
          }};
}

const DeviceKernelRegistration component_wise_kernels[] = {
    component_wise<formulas::Negative>("negative"),
    integers<formulas::Negative>("negative"),
    component_wise<formulas::Reciprocal>("reciprocal"),
    component_wise<formulas::Square>("square"),
    integers<formulas::Square>("square"),
    component_wise<formulas::Sqrt>("sqrt"),
    component_wise<formulas::Rsqrt>("rsqrt"),
    component_wise<formulas::Exp>("exp"),
    component_wise<formulas::Log>("log"),
    component_wise<formulas::Sin>("sin"),
    component_wise<formulas::Cos>("cos"),
    component_wise<formulas::Abs>("abs"),
    integers<formulas::Abs>("abs"),
    component_wise<formulas::Sign>("sign"),
    integers<formulas::Sign>("sign"),
    component_wise<formulas::Pow>("pow"),
    component_wise<formulas::ScalarMultiply>("scalar_multiply"),
    integers<formulas::ScalarMultiply>("scalar_multiply"),
    component_wise<formulas::ScalarAdd>("scalar_add"),
    integers<formulas::ScalarAdd>("scalar_add"),
    {"logical_not", {DType::kBool}, component_wise_kernel<formulas::LogicalNot, bool>},
};

}  // namespace
}  // namespace mtf::cuda
