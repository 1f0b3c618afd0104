// Kernels of engine/ops/unary.h: one vectorised loop for each function and each gradient.
#include "engine/ops/unary.h"

#include "engine/backend/cpu/elementwise/cpu_math.h"
#include "engine/backend/cpu/elementwise/element_blocks.h"
#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/base/check.h"
#include "engine/base/dispatch.h"

namespace mtf {
namespace {

/// y[i] = f(x[i], p) where p is the operation's parameter.
template <class T>
using Loop = void (*)(const T* x, T* y, int64_t n, T p);

/// dx[i] = f'(dy[i], v[i], p) where v is x or y.
template <class T>
using GradientLoop = void (*)(const T* dy, const T* v, T* dx, int64_t n, T p);

template <class F>
MTF_INLINE void float_loop(const float* x, float* y, int64_t n, float p) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = F::template f<float>(x[i], p);
}

template <class F, class T>
void plain_loop(const T* x, T* y, int64_t n, T p) {
  for (int64_t i = 0; i < n; ++i) y[i] = F::template f<T>(x[i], p);
}

template <class F>
MTF_INLINE void float_gradient_loop(const float* dy, const float* v, float* dx, int64_t n, float p) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) dx[i] = F::template g<float>(dy[i], v[i], p);
}

template <class F, class T>
void plain_gradient_loop(const T* dy, const T* v, T* dx, int64_t n, T p) {
  for (int64_t i = 0; i < n; ++i) dx[i] = F::template g<T>(dy[i], v[i], p);
}

void check_orders(const KernelContext& context) {
  for (const LocalTensor& input : context.inputs) {
    MTF_CHECK(input.strides == context.outputs[0].strides, "{}: operands in different memory orders",
              context.operation.name());
  }
}

template <class T>
std::unique_ptr<Kernel> kernel(const KernelContext& context, Loop<Computed<T>> loop) {
  check_orders(context);
  const auto p = static_cast<Computed<T>>(static_cast<const Unary&>(context.operation).parameter);
  return make_kernel(context.outputs[0].local.size(), kElementsPerTask,
                     [loop, p](const KernelCall& call, int64_t begin, int64_t end) {
                       BlockReader<T> x(call.input<T>(0) + begin, 1);
                       BlockWriter<T> y(call.output<T>(0) + begin);
                       for_each_block(end - begin, [&](int64_t i, int64_t n) {
                         loop(x.read(i, n), y.begin(i), n, p);
                         y.end(i, n);
                       });
                     });
}

template <class T>
std::unique_ptr<Kernel> gradient_kernel(const KernelContext& context, GradientLoop<Computed<T>> loop) {
  check_orders(context);
  const auto p = static_cast<Computed<T>>(static_cast<const UnaryGradient&>(context.operation).parameter);
  return make_kernel(context.outputs[0].local.size(), kElementsPerTask,
                     [loop, p](const KernelCall& call, int64_t begin, int64_t end) {
                       BlockReader<T> dy(call.input<T>(0) + begin, 1), v(call.input<T>(1) + begin, 1);
                       BlockWriter<T> dx(call.output<T>(0) + begin);
                       for_each_block(end - begin, [&](int64_t i, int64_t n) {
                         loop(dy.read(i, n), v.read(i, n), dx.begin(i), n, p);
                         dx.end(i, n);
                       });
                     });
}

/// Registers the kernels of one function, and of its gradient if it has one.
template <template <class> class Formula>
class UnaryRegistration {
 public:
  UnaryRegistration(std::string_view name, std::string_view gradient_name) {
    if constexpr ((F::kOperands & formulas::kFloats) != 0) KernelRegistration(name, kFloatingTypes, floats);
    if constexpr ((F::kOperands & formulas::kIntegers) != 0)
      KernelRegistration(name, {DType::kInt32, DType::kInt64}, integers);
    if constexpr ((F::kOperands & formulas::kBools) != 0) KernelRegistration(name, {DType::kBool}, bools);
    if constexpr (requires { F::kGradientOf; }) KernelRegistration(gradient_name, kFloatingTypes, gradient);
  }

 private:
  using F = Formula<CpuMath>;

  static std::unique_ptr<Kernel> floats(const KernelContext& context) {
    switch (context.inputs[0].dtype) {
      case DType::kBFloat16:
        return kernel<BFloat16>(context, dispatched<float_loop<F>>);
      case DType::kFloat64:
        return kernel<double>(context, plain_loop<F, double>);
      default:
        return kernel<float>(context, dispatched<float_loop<F>>);
    }
  }
  static std::unique_ptr<Kernel> integers(const KernelContext& context) {
    return context.inputs[0].dtype == DType::kInt32 ? kernel<int32_t>(context, plain_loop<F, int32_t>)
                                                    : kernel<int64_t>(context, plain_loop<F, int64_t>);
  }
  static std::unique_ptr<Kernel> bools(const KernelContext& context) {
    return kernel<bool>(context, plain_loop<F, bool>);
  }
  static std::unique_ptr<Kernel> gradient(const KernelContext& context) {
    switch (context.inputs[0].dtype) {
      case DType::kBFloat16:
        return gradient_kernel<BFloat16>(context, dispatched<float_gradient_loop<F>>);
      case DType::kFloat64:
        return gradient_kernel<double>(context, plain_gradient_loop<F, double>);
      default:
        return gradient_kernel<float>(context, dispatched<float_gradient_loop<F>>);
    }
  }
};

#define MTF_REGISTER(Formula, name) \
  const UnaryRegistration<formulas::Formula> name##_kernels(#name, #name "_gradient");
MTF_UNARY_FUNCTIONS(MTF_REGISTER)
#undef MTF_REGISTER

}  // namespace
}  // namespace mtf
