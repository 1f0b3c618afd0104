// Affine and StatisticsNorm: the coefficients are along some dimensions, of which the last one of x may be one.
#include "engine/ops/affine.h"

#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/backend/element.h"
#include "engine/backend/strided.h"
#include "engine/base/dispatch.h"

namespace mtf {
namespace {

template <class T>
struct Operands {
  const T *x = nullptr, *y = nullptr;
  const Computed<T>*scale = nullptr, *shift = nullptr, *weight = nullptr;
  T* out = nullptr;
};

/// out[i] = x[i] * scale[i * step] (+ y[i] * weight[i * step]) + shift[i * step], with a step of 0 or 1.
template <class T>
MTF_INLINE void combine(const Operands<T>& in, int64_t n, int64_t step) {
  const auto apply = [&](auto value) __attribute__((always_inline)) {
    if (step == 1) {
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) in.out[i] = narrow<T>(value(i, i));
    } else {
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) in.out[i] = narrow<T>(value(i, 0));
    }
  };
  if (in.y) {
    apply([&](int64_t i, int64_t c) __attribute__((always_inline)) {
      return widen(in.x[i]) * in.scale[c] + (widen(in.y[i]) * in.weight[c] + in.shift[c]);
    });
  } else {
    apply([&](int64_t i, int64_t c)
              __attribute__((always_inline)) { return widen(in.x[i]) * in.scale[c] + in.shift[c]; });
  }
}

template <class T>
std::unique_ptr<Kernel> affine_kernel(const KernelContext& context) {
  const LocalTensor &x = context.inputs[0], &scale = context.inputs[1];
  // Strides in x and in the coefficients.
  StridedAxes<2> axes;
  for (int a = 0; a < x.global.rank(); ++a) {
    const auto coefficient = scale.global.find(x.global[a].name);
    axes.push_back({x.local[a].size, {x.strides[a], coefficient ? scale.strides[*coefficient] : 0}});
  }
  axes = joined(axes);
  StridedAxis<2> inner;
  inner.strides = {1, 0};
  if (!axes.empty() && axes.back().strides[1] <= 1) {
    inner = axes.back();
    axes.pop_back();
  }
  const bool second = context.operation.name() == "affine" && context.inputs.size() == 5;
  const int64_t rows = size_of(axes), step = inner.strides[1];
  return make_kernel(rows, std::max<int64_t>(1, kElementsPerTask / inner.size),
                     [=](const KernelCall& call, int64_t begin, int64_t end) {
                       for_each_offset(axes, begin, end, [&](const Offsets<2>& at) {
                         using C = Computed<T>;
                         const Operands<T> operands{.x = call.input<T>(0) + at[0],
                                                    .y = second ? call.input<T>(3) + at[0] : nullptr,
                                                    .scale = call.input<C>(1) + at[1],
                                                    .shift = call.input<C>(2) + at[1],
                                                    .weight = second ? call.input<C>(4) + at[1] : nullptr,
                                                    .out = call.output<T>(0) + at[0]};
                         dispatched<combine<T>>(operands, inner.size, step);
                       });
                     });
}

template <class T>
struct Registrations {
  KernelRegistration affine{"affine", {DTypeOf<T>::value}, affine_kernel<T>};
  KernelRegistration norm{"statistics_norm", {DTypeOf<T>::value}, affine_kernel<T>};
};
const Registrations<float> of_float32;
const Registrations<BFloat16> of_bfloat16;
const Registrations<double> of_float64;

}  // namespace
}  // namespace mtf
