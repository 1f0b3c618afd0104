// SGD, momentum and Adam in one pass over weight, gradient and slots; the time is bound by memory. Outputs
// may overwrite inputs.
#include "engine/ops/optimizer_updates.h"

#include <cmath>

#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/backend/element.h"
#include "engine/base/dispatch.h"

namespace mtf {
namespace {

template <class T>
MTF_INLINE void sgd(const T* w, const Computed<T>* g, T* new_w, Computed<T> learning_rate, int64_t begin,
                    int64_t end) {
#pragma GCC ivdep
  for (int64_t i = begin; i < end; ++i) new_w[i] = narrow<T>(widen(w[i]) - learning_rate * g[i]);
}

template <class T>
struct Velocity {
  const Computed<T>* old;
  Computed<T>* updated;
};
template <class T>
MTF_INLINE void momentum_step(const T* w, const Computed<T>* g, T* new_w, const Velocity<T>& v,
                              Computed<T> learning_rate, Computed<T> momentum, int64_t begin, int64_t end) {
  const Computed<T>* old = v.old;
  Computed<T>* updated = v.updated;
#pragma GCC ivdep
  for (int64_t i = begin; i < end; ++i) {
    const Computed<T> velocity = learning_rate * g[i] + momentum * old[i];
    updated[i] = velocity;
    new_w[i] = narrow<T>(widen(w[i]) - velocity);
  }
}

template <class A>
struct AdamNumbers {
  A learning_rate, beta1, rest1, beta2, rest2, epsilon, weight_decay, first_correction,
      second_correction;  ///< rest1 = 1 - beta1, rest2 = 1 - beta2
};
template <class T>
struct Moments {
  const Computed<T>*m, *v;
  Computed<T>*new_m, *new_v;
};
template <class T>
MTF_INLINE void adam(const T* w, const Computed<T>* g, T* new_w, const Moments<T>& moments,
                     const AdamNumbers<Computed<T>>& numbers, int64_t begin, int64_t end) {
  using A = Computed<T>;
  const auto [m, v, new_m, new_v] = moments;
  const auto [learning_rate, beta1, rest1, beta2, rest2, epsilon, weight_decay, first_correction,
              second_correction] = numbers;
#pragma GCC ivdep
  for (int64_t i = begin; i < end; ++i) {
    const A first = beta1 * m[i] + rest1 * g[i], second = beta2 * v[i] + rest2 * (g[i] * g[i]);
    new_m[i] = first;
    new_v[i] = second;
    const A weight = widen(w[i]);
    const A step =
        first * first_correction / (std::sqrt(second * second_correction) + epsilon) + weight_decay * weight;
    new_w[i] = narrow<T>(weight - learning_rate * step);
  }
}

template <class T>
std::unique_ptr<Kernel> sgd_kernel(const KernelContext& context) {
  return make_kernel(context.outputs[0].local.size(), kElementsPerTask,
                     [](const KernelCall& call, int64_t begin, int64_t end) {
                       using A = Computed<T>;
                       dispatched<sgd<T>>(call.input<T>(0), call.input<A>(1), call.output<T>(0),
                                          *call.input<A>(2), begin, end);
                     });
}

template <class T>
std::unique_ptr<Kernel> momentum_kernel(const KernelContext& context) {
  using A = Computed<T>;
  const A momentum = static_cast<A>(static_cast<const MomentumStep&>(context.operation).momentum);
  return make_kernel(context.outputs[0].local.size(), kElementsPerTask,
                     [momentum](const KernelCall& call, int64_t begin, int64_t end) {
                       const Velocity<T> velocity{call.input<A>(2), call.output<A>(1)};
                       dispatched<momentum_step<T>>(call.input<T>(0), call.input<A>(1), call.output<T>(0),
                                                    velocity, *call.input<A>(3), momentum, begin, end);
                     });
}

template <class T>
std::unique_ptr<Kernel> adam_kernel(const KernelContext& context) {
  using A = Computed<T>;
  const AdamOptions options = static_cast<const AdamStep&>(context.operation).options;
  const bool corrected = context.inputs.size() > 5;
  return make_kernel(
      context.outputs[0].local.size(), kElementsPerTask,
      [options, corrected](const KernelCall& call, int64_t begin, int64_t end) {
        const AdamNumbers<A> numbers{*call.input<A>(4),
                                     static_cast<A>(options.beta1),
                                     static_cast<A>(1 - options.beta1),
                                     static_cast<A>(options.beta2),
                                     static_cast<A>(1 - options.beta2),
                                     static_cast<A>(options.epsilon),
                                     static_cast<A>(options.weight_decay),
                                     corrected ? *call.input<A>(5) : A(1),
                                     corrected ? *call.input<A>(6) : A(1)};
        const Moments<T> moments{call.input<A>(2), call.input<A>(3), call.output<A>(1), call.output<A>(2)};
        dispatched<adam<T>>(call.input<T>(0), call.input<A>(1), call.output<T>(0), moments, numbers, begin,
                            end);
      });
}

template <class T>
std::unique_ptr<Kernel> all_finite_kernel(const KernelContext& context) {
  return make_kernel(
      1, 1, [count = static_cast<int>(context.inputs.size())](const KernelCall& call, int64_t, int64_t) {
        bool finite = true;
        for (int i = 0; i < count; ++i) finite &= std::isfinite(widen(*call.input<T>(i)));
        *call.output<bool>(0) = finite;
      });
}

template <class T>
struct Registrations {
  static constexpr DType dtype = DTypeOf<T>::value;
  KernelRegistration sgd{"sgd_update", {dtype}, sgd_kernel<T>};
  KernelRegistration momentum{"momentum_update", {dtype}, momentum_kernel<T>};
  KernelRegistration adam{"adam_update", {dtype}, adam_kernel<T>};
  KernelRegistration all_finite{"all_finite", {dtype}, all_finite_kernel<T>};
};
const Registrations<float> registrations_f32;
const Registrations<double> registrations_f64;
const Registrations<BFloat16> registrations_bf16;

}  // namespace
}  // namespace mtf
