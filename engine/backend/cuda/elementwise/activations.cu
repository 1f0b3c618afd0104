// Kernels of the functions of engine/ops/unary.h whose gradient is a single kernel.
#include "engine/backend/cuda/elementwise/unary.h"

namespace mtf::cuda {
namespace {

template <class F>
struct ActivationRegistration {
  explicit ActivationRegistration(std::string_view name) {
    if constexpr (kHasGradient<F>) register_floats<F>(name);
  }
};

#define MTF_REGISTER(Formula, name) const ActivationRegistration<formulas::Formula> name##_activation(#name);
MTF_UNARY_FUNCTIONS(MTF_REGISTER)
#undef MTF_REGISTER

}  // namespace
}  // namespace mtf::cuda
