// Kernels of gradients, for functions of engine/ops/unary.h whose gradient is a single kernel.
#include "engine/backend/cuda/elementwise/unary.h"

namespace mtf::cuda {
namespace {

template <class F>
struct GradientRegistration {
  explicit GradientRegistration(std::string_view name) {
    if constexpr (kHasGradient<F>) register_floats<F, 2>(name);
  }
};

#define MTF_REGISTER(Formula, name) \
  const GradientRegistration<formulas::Formula> name##_gradient(#name "_gradient");
MTF_UNARY_FUNCTIONS(MTF_REGISTER)
#undef MTF_REGISTER

}  // namespace
}  // namespace mtf::cuda
