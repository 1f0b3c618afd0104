// Kernels of engine/ops/component_wise.h: one vectorised loop for each function and each gradient.
#include "engine/ops/component_wise.h"

#include <cmath>

#include "engine/backend/cpu/elementwise/blocks.h"
#include "engine/backend/cpu/elementwise/fast_math.h"
#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/base/check.h"
#include "engine/base/clones.h"

namespace mtf {
namespace {

/// y[i] = f(x[i], p) where p is the operation's parameter.
template <class T>
using Loop = void (*)(const T* x, T* y, int64_t n, T p);

/// dx[i] = f'(dy[i], v[i], p) where v is x or y.
template <class T>
using GradientLoop = void (*)(const T* dy, const T* v, T* dx, int64_t n, T p);

// The formulas. `f` takes x and p, `g` takes dy, x or y, and p. Comparisons are such that NaN comes out.

struct Negative {
  template <class T>
  MTF_INLINE T f(T x, T) {
    return -x;
  }
};
struct Reciprocal {
  template <class T>
  MTF_INLINE T f(T x, T) {
    return 1 / x;
  }
};
struct Square {
  template <class T>
  MTF_INLINE T f(T x, T) {
    return x * x;
  }
};
struct Sqrt {
  template <class T>
  MTF_INLINE T f(T x, T) {
    return std::sqrt(x);
  }
};
struct Rsqrt {
  template <class T>
  MTF_INLINE T f(T x, T) {
    return 1 / std::sqrt(x);
  }
};
struct Exp {
  template <class T>
  MTF_INLINE T f(T x, T) {
    return fast::exp(x);
  }
};
struct Log {
  template <class T>
  MTF_INLINE T f(T x, T) {
    return fast::log(x);
  }
};
struct Sin {
  template <class T>
  MTF_INLINE T f(T x, T) {
    return std::sin(x);
  }
};
struct Cos {
  template <class T>
  MTF_INLINE T f(T x, T) {
    return std::cos(x);
  }
};
struct Abs {
  template <class T>
  MTF_INLINE T f(T x, T) {
    return x < 0 ? -x : x;
  }
};
struct Sign {
  template <class T>
  MTF_INLINE T f(T x, T) {
    return x > 0 ? T(1) : x < 0 ? T(-1) : x;
  }
};
struct Pow {
  template <class T>
  MTF_INLINE T f(T x, T p) {
    return std::pow(x, p);
  }
};
struct ScalarMultiply {
  template <class T>
  MTF_INLINE T f(T x, T p) {
    return x * p;
  }
};
struct ScalarAdd {
  template <class T>
  MTF_INLINE T f(T x, T p) {
    return x + p;
  }
};
struct LogicalNot {
  template <class T>
  MTF_INLINE T f(T x, T) {
    return !x;
  }
};

struct Relu {
  template <class T>
  MTF_INLINE T f(T x, T) {
    return x < 0 ? T(0) : x;
  }
  template <class T>
  MTF_INLINE T g(T dy, T y, T) {
    return y > 0 ? dy : T(0);
  }
};
struct LeakyRelu {
  template <class T>
  MTF_INLINE T f(T x, T p) {
    return x > 0 ? x : p * x;
  }
  template <class T>
  MTF_INLINE T g(T dy, T x, T p) {
    return x > 0 ? dy : p * dy;
  }
};
struct Elu {
  template <class T>
  MTF_INLINE T f(T x, T) {
    return x > 0 ? x : fast::expm1(x);
  }
  template <class T>
  MTF_INLINE T g(T dy, T y, T) {
    return y > 0 ? dy : dy * (y + 1);
  }
};
struct Selu {
  static constexpr double kAlpha = 1.6732632423543772, kLambda = 1.0507009873554805;
  template <class T>
  MTF_INLINE T f(T x, T) {
    return T(kLambda) * (x > 0 ? x : T(kAlpha) * fast::expm1(x));
  }
  template <class T>
  MTF_INLINE T g(T dy, T y, T) {
    return dy * (y >= 0 ? T(kLambda) : y + T(kLambda * kAlpha));
  }
};
struct Softplus {
  template <class T>
  MTF_INLINE T f(T x, T) {
    return fast::softplus(x);
  }
  template <class T>
  MTF_INLINE T g(T dy, T x, T) {
    return dy * fast::sigmoid(x);
  }
};
struct Sigmoid {
  template <class T>
  MTF_INLINE T f(T x, T) {
    return fast::sigmoid(x);
  }
  template <class T>
  MTF_INLINE T g(T dy, T y, T) {
    return dy * (y * (1 - y));
  }
};
struct Tanh {
  template <class T>
  MTF_INLINE T f(T x, T) {
    return fast::tanh(x);
  }
  template <class T>
  MTF_INLINE T g(T dy, T y, T) {
    return dy * (1 - y * y);
  }
};
struct Swish {
  template <class T>
  MTF_INLINE T f(T x, T) {
    return x * fast::sigmoid(x);
  }
  template <class T>
  MTF_INLINE T g(T dy, T x, T) {
    const T s = fast::sigmoid(x);
    return dy * (s + x * (s * (1 - s)));
  }
};
/// (1 + tanh(u)) / 2 = sigmoid(2u), with u = sqrt(2/pi) (x + 0.044715 x^3).
struct Gelu {
  static constexpr double kTwoU = 2 * 0.7978845608028654, kCubic = 0.044715;
  template <class T>
  MTF_INLINE T f(T x, T) {
    return x * fast::sigmoid(T(kTwoU) * (x + T(kCubic) * x * x * x));
  }
  template <class T>
  MTF_INLINE T g(T dy, T x, T) {
    const T square = x * x;
    const T s = fast::sigmoid(T(kTwoU) * (x + T(kCubic) * x * square));
    // Beyond x = 100 the slope of s is 0 and must not meet an overflowing cube.
    const T slope = square < 10000 ? x * (T(kTwoU) * (1 + T(3 * kCubic) * square)) : T(0);
    return dy * (s + slope * (s * (1 - s)));
  }
};
struct SquaredRelu {
  template <class T>
  MTF_INLINE T f(T x, T) {
    return x < 0 ? T(0) : x * x;
  }
  template <class T>
  MTF_INLINE T g(T dy, T x, T) {
    return dy * (x > 0 ? 2 * x : T(0));
  }
};

template <class F>
MTF_CLONES void float_loop(const float* x, float* y, int64_t n, float p) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = F::template f<float>(x[i], p);
}

template <class F, class T>
void plain_loop(const T* x, T* y, int64_t n, T p) {
  for (int64_t i = 0; i < n; ++i) y[i] = F::template f<T>(x[i], p);
}

template <class F>
MTF_CLONES void float_gradient_loop(const float* dy, const float* v, float* dx, int64_t n, float p) {
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
  const auto p = static_cast<Computed<T>>(static_cast<const ComponentWise&>(context.operation).parameter);
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
  const auto p =
      static_cast<Computed<T>>(static_cast<const ComponentWiseGradient&>(context.operation).parameter);
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

template <class F>
KernelRegistration floating(std::string_view name) {
  return {name, kFloatingTypes, [](const KernelContext& context) {
            switch (context.inputs[0].dtype) {
              case DType::kBFloat16:
                return kernel<BFloat16>(context, float_loop<F>);
              case DType::kFloat64:
                return kernel<double>(context, plain_loop<F, double>);
              default:
                return kernel<float>(context, float_loop<F>);
            }
          }};
}

template <class F>
KernelRegistration integers(std::string_view name) {
  return {name, {DType::kInt32, DType::kInt64}, [](const KernelContext& context) {
            return context.inputs[0].dtype == DType::kInt32
                       ? kernel<int32_t>(context, plain_loop<F, int32_t>)
                       : kernel<int64_t>(context, plain_loop<F, int64_t>);
          }};
}

template <class F>
KernelRegistration gradient(std::string_view name) {
  return {name, kFloatingTypes, [](const KernelContext& context) {
            switch (context.inputs[0].dtype) {
              case DType::kBFloat16:
                return gradient_kernel<BFloat16>(context, float_gradient_loop<F>);
              case DType::kFloat64:
                return gradient_kernel<double>(context, plain_gradient_loop<F, double>);
              default:
                return gradient_kernel<float>(context, float_gradient_loop<F>);
            }
          }};
}

std::unique_ptr<Kernel> logical_not_kernel(const KernelContext& context) {
  return kernel<bool>(context, plain_loop<LogicalNot, bool>);
}

const KernelRegistration registrations[] = {
    floating<Negative>("negative"),
    integers<Negative>("negative"),
    floating<Reciprocal>("reciprocal"),
    floating<Square>("square"),
    integers<Square>("square"),
    floating<Sqrt>("sqrt"),
    floating<Rsqrt>("rsqrt"),
    floating<Exp>("exp"),
    floating<Log>("log"),
    floating<Sin>("sin"),
    floating<Cos>("cos"),
    floating<Abs>("abs"),
    integers<Abs>("abs"),
    floating<Sign>("sign"),
    integers<Sign>("sign"),
    floating<Pow>("pow"),
    floating<ScalarMultiply>("scalar_multiply"),
    integers<ScalarMultiply>("scalar_multiply"),
    floating<ScalarAdd>("scalar_add"),
    integers<ScalarAdd>("scalar_add"),
    floating<Relu>("relu"),
    gradient<Relu>("relu_gradient"),
    floating<LeakyRelu>("leaky_relu"),
    gradient<LeakyRelu>("leaky_relu_gradient"),
    floating<Elu>("elu"),
    gradient<Elu>("elu_gradient"),
    floating<Selu>("selu"),
    gradient<Selu>("selu_gradient"),
    floating<Softplus>("softplus"),
    gradient<Softplus>("softplus_gradient"),
    floating<Sigmoid>("sigmoid"),
    gradient<Sigmoid>("sigmoid_gradient"),
    floating<Tanh>("tanh"),
    gradient<Tanh>("tanh_gradient"),
    floating<Swish>("swish"),
    gradient<Swish>("swish_gradient"),
    floating<Gelu>("gelu"),
    gradient<Gelu>("gelu_gradient"),
    floating<SquaredRelu>("squared_relu"),
    gradient<SquaredRelu>("squared_relu_gradient"),
    {"logical_not", {DType::kBool}, logical_not_kernel},
};

}  // namespace
}  // namespace mtf
