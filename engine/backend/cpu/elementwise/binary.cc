// Kernels of engine/ops/binary.h: one vectorised loop for each function. Operands that are broadcast or
// stored in another order pass through a block in L1.
#include "engine/ops/binary.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/backend/broadcast_axes.h"
#include "engine/backend/cpu/elementwise/cpu_math.h"
#include "engine/backend/cpu/elementwise/element_blocks.h"
#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/base/dispatch.h"

namespace mtf {
namespace {

/// y[i] = f(a[i], b[i]).
template <class T, class R>
using Loop = void (*)(const T* a, const T* b, R* y, int64_t n);

template <class F, class T>
using Result = decltype(F::template f<T>(T(), T()));

template <class F>
MTF_INLINE void float_loop(const float* a, const float* b, Result<F, float>* y, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = F::template f<float>(a[i], b[i]);
}

template <class F, class T>
void plain_loop(const T* a, const T* b, Result<F, T>* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = F::template f<T>(a[i], b[i]);
}

/// Rows of one operand that all meet the same short vector, the other operand: a bias, a scale.
struct ShortRows {
  size_t vector = 0;  ///< the operand that is the vector
  int64_t size = 0;
};

/// The longest rows that are computed several at a time.
constexpr int64_t kShortRow = kBlock / 2;

std::optional<ShortRows> short_rows(const StridedAxes<2>& axes) {
  if (axes.size() != 2 || axes[1].size > kShortRow) return std::nullopt;
  for (const size_t vector : {size_t{0}, size_t{1}}) {
    const size_t dense = 1 - vector;
    if (axes[0].strides[vector] == 0 && axes[1].strides[vector] == 1 &&
        axes[0].strides[dense] == axes[1].size && axes[1].strides[dense] == 1)
      return ShortRows{vector, axes[1].size};
  }
  return std::nullopt;
}

/// The vector is repeated in L1, so that a block has several rows.
template <class T, class R>
std::unique_ptr<Kernel> short_rows_kernel(const KernelContext& context, const ShortRows& rows,
                                          Loop<Computed<T>, Computed<R>> loop) {
  return make_kernel(context.outputs[0].local.size(), kElementsPerTask,
                     [=](const KernelCall& call, int64_t begin, int64_t end) {
                       alignas(64) Computed<T> repeated[kBlock + kShortRow];
                       const T* vector = call.input<T>(static_cast<int>(rows.vector));
                       const int64_t size = std::min(kBlock, end - begin) + rows.size;
                       for (int64_t i = 0; i < size; i += rows.size) {
                         for (int64_t k = 0; k < std::min(rows.size, size - i); ++k)
                           repeated[i + k] = widen(vector[k]);
                       }
                       BlockReader<T> dense(call.input<T>(static_cast<int>(1 - rows.vector)) + begin, 1);
                       BlockWriter<R> y(call.output<R>(0) + begin);
                       for_each_block(end - begin, [&](int64_t i, int64_t n) {
                         const Computed<T>*a = dense.read(i, n), *b = repeated + (begin + i) % rows.size;
                         if (rows.vector == 0) std::swap(a, b);
                         loop(a, b, y.begin(i), n);
                         y.end(i, n);
                       });
                     });
}

/// T is the type of stored operands, R that of stored results.
template <class T, class R>
std::unique_ptr<Kernel> kernel(const KernelContext& context, Loop<Computed<T>, Computed<R>> loop) {
  const StridedAxes<2> axes = broadcast_axes<2>(context);
  if (const auto rows = short_rows(axes)) return short_rows_kernel<T, R>(context, *rows, loop);
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

/// The stored type of results: bool or the operands' type.
template <class F, class T>
using Stored = std::conditional_t<std::is_same_v<Result<F, Computed<T>>, bool>, bool, T>;

/// Registers the kernels of one function.
template <template <class> class Formula>
class BinaryRegistration {
 public:
  explicit BinaryRegistration(std::string_view name) {
    if constexpr ((F::kOperands & formulas::kFloats) != 0) KernelRegistration(name, kFloatingTypes, floats);
    if constexpr ((F::kOperands & formulas::kIntegers) != 0)
      KernelRegistration(name, {DType::kInt32, DType::kInt64}, integers);
    if constexpr ((F::kOperands & formulas::kBools) != 0) KernelRegistration(name, {DType::kBool}, bools);
  }

 private:
  using F = Formula<CpuMath>;

  static std::unique_ptr<Kernel> floats(const KernelContext& context) {
    switch (context.inputs[0].dtype) {
      case DType::kBFloat16:
        return kernel<BFloat16, Stored<F, BFloat16>>(context, dispatched<float_loop<F>>);
      case DType::kFloat64:
        return kernel<double, Stored<F, double>>(context, plain_loop<F, double>);
      default:
        return kernel<float, Stored<F, float>>(context, dispatched<float_loop<F>>);
    }
  }
  static std::unique_ptr<Kernel> integers(const KernelContext& context) {
    return context.inputs[0].dtype == DType::kInt32
               ? kernel<int32_t, Stored<F, int32_t>>(context, plain_loop<F, int32_t>)
               : kernel<int64_t, Stored<F, int64_t>>(context, plain_loop<F, int64_t>);
  }
  static std::unique_ptr<Kernel> bools(const KernelContext& context) {
    return kernel<bool, bool>(context, plain_loop<F, bool>);
  }
};

#define MTF_REGISTER(Formula, name) const BinaryRegistration<formulas::Formula> name##_kernels(#name);
MTF_BINARY_FUNCTIONS(MTF_REGISTER)
#undef MTF_REGISTER

}  // namespace
}  // namespace mtf
