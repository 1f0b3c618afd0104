// Kernels of engine/ops/binary.h: one vectorised loop for each function; operands that are broadcast or
// stored in another order pass through a block in L1.
#include "engine/ops/binary.h"

#include <cmath>

#include "engine/backend/broadcast_axes.h"
#include "engine/backend/cpu/elementwise/blocks.h"
#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/backend/integer_division.h"
#include "engine/base/clones.h"

namespace mtf {
namespace {

/// y[i] = f(a[i], b[i]).
template <class T, class R>
using Loop = void (*)(const T* a, const T* b, R* y, int64_t n);

struct Add {
  template <class T>
  MTF_INLINE T f(T a, T b) {
    return a + b;
  }
};
struct Subtract {
  template <class T>
  MTF_INLINE T f(T a, T b) {
    return a - b;
  }
};
struct Multiply {
  template <class T>
  MTF_INLINE T f(T a, T b) {
    return a * b;
  }
};
struct Divide {
  template <class T>
  MTF_INLINE T f(T a, T b) {
    return a / b;
  }
};
/// NaN if one operand is.
struct Minimum {
  template <class T>
  MTF_INLINE T f(T a, T b) {
    return a < b || a != a ? a : b;
  }
};
struct Maximum {
  template <class T>
  MTF_INLINE T f(T a, T b) {
    return a > b || a != a ? a : b;
  }
};
struct FloorDivide {
  template <class T>
  MTF_INLINE T f(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      return std::floor(a / b);
    } else {
      return floor_divide(a, b);
    }
  }
};
struct Modulo {
  template <class T>
  MTF_INLINE T f(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      const T rest = std::fmod(a, b);
      return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
    } else {
      return floor_modulo(a, b);
    }
  }
};
struct Less {
  template <class T>
  MTF_INLINE bool f(T a, T b) {
    return a < b;
  }
};
struct Greater {
  template <class T>
  MTF_INLINE bool f(T a, T b) {
    return a > b;
  }
};
struct LessEqual {
  template <class T>
  MTF_INLINE bool f(T a, T b) {
    return a <= b;
  }
};
struct GreaterEqual {
  template <class T>
  MTF_INLINE bool f(T a, T b) {
    return a >= b;
  }
};
struct Equal {
  template <class T>
  MTF_INLINE bool f(T a, T b) {
    return a == b;
  }
};
struct NotEqual {
  template <class T>
  MTF_INLINE bool f(T a, T b) {
    return a != b;
  }
};
struct LogicalAnd {
  template <class T>
  MTF_INLINE bool f(T a, T b) {
    return a & b;
  }
};
struct LogicalOr {
  template <class T>
  MTF_INLINE bool f(T a, T b) {
    return a | b;
  }
};

template <class F, class T>
using Result = decltype(F::template f<T>(T(), T()));

template <class F>
MTF_CLONES void float_loop(const float* a, const float* b, Result<F, float>* y, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = F::template f<float>(a[i], b[i]);
}

template <class F, class T>
void plain_loop(const T* a, const T* b, Result<F, T>* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = F::template f<T>(a[i], b[i]);
}

/// T: stored operands; R: stored results.
template <class T, class R>
std::unique_ptr<Kernel> kernel(const KernelContext& context, Loop<Computed<T>, Computed<R>> loop) {
  const StridedAxes<2> axes = broadcast_axes<2>(context);
  const int64_t stride_a = inner_stride(axes, 0), stride_b = inner_stride(axes, 1);
  return make_kernel(context.outputs[0].local.size(), kElementsPerTask,
                     [=](const KernelCall& call, int64_t begin, int64_t end) {
                       R* result = call.output<R>(0) + begin;
                       for_each_run(axes, begin, end, [&](const Offsets<2>& at, int64_t count) {
                         BlockReader<T> a(call.input<T>(0) + at[0], stride_a),
                             b(call.input<T>(1) + at[1], stride_b);
                         BlockWriter<R> y(result);
                         for_each_block(count, [&](int64_t i, int64_t n) {
                           loop(a.read(i, n), b.read(i, n), y.begin(i), n);
                           y.end(i, n);
                         });
                         result += count;
                       });
                     });
}

/// Results are of the operands' type or bool.
template <class F, class T>
using Stored = std::conditional_t<std::is_same_v<Result<F, Computed<T>>, bool>, bool, T>;

template <class F>
KernelRegistration floating(std::string_view name) {
  return {name, kFloatingTypes, [](const KernelContext& context) {
            switch (context.inputs[0].dtype) {
              case DType::kBFloat16:
                return kernel<BFloat16, Stored<F, BFloat16>>(context, float_loop<F>);
              case DType::kFloat64:
                return kernel<double, Stored<F, double>>(context, plain_loop<F, double>);
              default:
                return kernel<float, Stored<F, float>>(context, float_loop<F>);
            }
          }};
}

template <class F>
KernelRegistration integers(std::string_view name) {
  return {name, {DType::kInt32, DType::kInt64}, [](const KernelContext& context) {
            return context.inputs[0].dtype == DType::kInt32
                       ? kernel<int32_t, Stored<F, int32_t>>(context, plain_loop<F, int32_t>)
                       : kernel<int64_t, Stored<F, int64_t>>(context, plain_loop<F, int64_t>);
          }};
}

template <class F>
KernelRegistration bools(std::string_view name) {
  return {name, {DType::kBool}, [](const KernelContext& context) {
            return kernel<bool, bool>(context, plain_loop<F, bool>);
          }};
}

const KernelRegistration registrations[] = {
    floating<Add>("add"),
    integers<Add>("add"),
    floating<Subtract>("subtract"),
    integers<Subtract>("subtract"),
    floating<Multiply>("multiply"),
    integers<Multiply>("multiply"),
    floating<Divide>("divide"),
    floating<Minimum>("minimum"),
    integers<Minimum>("minimum"),
    floating<Maximum>("maximum"),
    integers<Maximum>("maximum"),
    floating<FloorDivide>("floor_divide"),
    integers<FloorDivide>("floor_divide"),
    floating<Modulo>("modulo"),
    integers<Modulo>("modulo"),
    floating<Less>("less"),
    integers<Less>("less"),
    floating<Greater>("greater"),
    integers<Greater>("greater"),
    floating<LessEqual>("less_equal"),
    integers<LessEqual>("less_equal"),
    floating<GreaterEqual>("greater_equal"),
    integers<GreaterEqual>("greater_equal"),
    floating<Equal>("equal"),
    integers<Equal>("equal"),
    bools<Equal>("equal"),
    floating<NotEqual>("not_equal"),
    integers<NotEqual>("not_equal"),
    bools<NotEqual>("not_equal"),
    bools<LogicalAnd>("logical_and"),
    bools<LogicalOr>("logical_or"),
};

}  // namespace
}  // namespace mtf
