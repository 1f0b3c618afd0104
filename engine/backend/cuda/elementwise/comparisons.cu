// Kernels of the comparisons and the logical functions of engine/ops/binary.h.
#include "engine/backend/cuda/elementwise/binary.h"

namespace mtf::cuda {
namespace {

template <class F>
DeviceKernelRegistration bools(std::string_view name) {
  return {name, {DType::kBool}, [](const KernelContext& context, Device& device) {
            return binary_kernel<F, bool>(context, device);
          }};
}

const DeviceKernelRegistration comparisons_kernels[] = {
    floating_binary<formulas::Less>("less"),
    integer_binary<formulas::Less>("less"),
    floating_binary<formulas::Greater>("greater"),
    integer_binary<formulas::Greater>("greater"),
    floating_binary<formulas::LessEqual>("less_equal"),
    integer_binary<formulas::LessEqual>("less_equal"),
    floating_binary<formulas::GreaterEqual>("greater_equal"),
    integer_binary<formulas::GreaterEqual>("greater_equal"),
    floating_binary<formulas::Equal>("equal"),
    integer_binary<formulas::Equal>("equal"),
    bools<formulas::Equal>("equal"),
    floating_binary<formulas::NotEqual>("not_equal"),
    integer_binary<formulas::NotEqual>("not_equal"),
    bools<formulas::NotEqual>("not_equal"),
    bools<formulas::LogicalAnd>("logical_and"),
    bools<formulas::LogicalOr>("logical_or"),
};

}  // namespace
}  // namespace mtf::cuda
