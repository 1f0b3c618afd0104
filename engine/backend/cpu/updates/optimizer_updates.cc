// SGD, momentum and Adam in one pass over weight, gradient and slots; the time is bound by memory. Outputs
// may overwrite inputs.
#include "engine/ops/optimizer_updates.h"

#include <cmath>
#include <optional>
#include <type_traits>

#include "engine/backend/cpu/elementwise/noise_pieces.h"
#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/backend/element.h"
#include "engine/backend/visit_type.h"
#include "engine/base/dispatch.h"
#include "engine/core/stochastic_rounding.h"

namespace mtf {
namespace {

/// True if slots of this type are rounded at random.
template <class S>
inline constexpr bool kIsRounded = std::is_same_v<S, BFloat16>;

/// A slot's new value as it is stored.
template <class S>
MTF_INLINE S stored(Computed<S> value, [[maybe_unused]] uint32_t bits) {
  if constexpr (kIsRounded<S>) {
    return round_stochastically(value, bits);
  } else {
    return value;
  }
}

/// Goes over elements in pieces, with the random bits by which their slots of type S are rounded.
template <class S>
class SlotPieces {
 public:
  SlotPieces(const KernelContext& context, const std::optional<RandomSource>& rounding)
      : index_(context.outputs[0], context.outputs[0].global, {}, rounding ? rounding->first_element : 0) {
    if (rounding) key_ = random_key(rounding->name, context.seed);
  }

  /// Calls visit(begin, end, bits); without rounding once for all elements, where `bits` is null.
  template <class Visit>
  void operator()(const KernelCall& call, int64_t begin, int64_t end, Visit visit) const {
    if constexpr (kIsRounded<S>) {
      for_each_piece(index_, RandomStream::kRounding, key_, call, begin, end,
                     [&](int64_t at, const uint32_t* bits, int64_t count) { visit(at, at + count, bits); });
    } else {
      visit(begin, end, nullptr);
    }
  }

 private:
  NoiseIndex index_;
  PhiloxKey key_;
};

template <class T>
MTF_INLINE void sgd(const T* w, const Computed<T>* g, T* new_w, Computed<T> learning_rate, int64_t begin,
                    int64_t end) {
#pragma GCC ivdep
  for (int64_t i = begin; i < end; ++i) new_w[i] = narrow<T>(widen(w[i]) - learning_rate * g[i]);
}

template <class S>
struct Velocity {
  const S* old;
  S* updated;
};
template <class T, class S>
MTF_INLINE void momentum_step(const T* w, const Computed<T>* g, T* new_w, const Velocity<S>& v,
                              Computed<T> learning_rate, Computed<T> momentum, const uint32_t* bits,
                              int64_t begin, int64_t end) {
  const S* old = v.old;
  S* updated = v.updated;
#pragma GCC ivdep
  for (int64_t i = begin; i < end; ++i) {
    const Computed<T> velocity = learning_rate * g[i] + momentum * widen(old[i]);
    updated[i] = stored<S>(velocity, kIsRounded<S> ? bits[i - begin] : 0);
    new_w[i] = narrow<T>(widen(w[i]) - velocity);
  }
}

template <class A>
struct AdamNumbers {
  A learning_rate, beta1, rest1, beta2, rest2, epsilon, weight_decay, first_correction,
      second_correction;  ///< rest1 = 1 - beta1, rest2 = 1 - beta2
};
template <class S>
struct Moments {
  const S *m, *v;
  S *new_m, *new_v;
};
template <class T, class S>
MTF_INLINE void adam(const T* w, const Computed<T>* g, T* new_w, const Moments<S>& moments,
                     const AdamNumbers<Computed<T>>& numbers, const uint32_t* bits, int64_t begin,
                     int64_t end) {
  using A = Computed<T>;
  const auto [m, v, new_m, new_v] = moments;
  const auto [learning_rate, beta1, rest1, beta2, rest2, epsilon, weight_decay, first_correction,
              second_correction] = numbers;
#pragma GCC ivdep
  for (int64_t i = begin; i < end; ++i) {
    const A first = beta1 * widen(m[i]) + rest1 * g[i], second = beta2 * widen(v[i]) + rest2 * (g[i] * g[i]);
    const uint32_t word = kIsRounded<S> ? bits[i - begin] : 0;
    new_m[i] = stored<S>(first, word);
    new_v[i] = stored<S>(second, word >> 16);
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

template <class T, class S>
std::unique_ptr<Kernel> momentum_kernel_of(const KernelContext& context) {
  using A = Computed<T>;
  const auto& step = static_cast<const MomentumStep&>(context.operation);
  const A momentum = static_cast<A>(step.momentum);
  return make_kernel(context.outputs[0].local.size(), kElementsPerTask,
                     [momentum, pieces = SlotPieces<S>(context, step.rounding)](const KernelCall& call,
                                                                                int64_t begin, int64_t end) {
                       const Velocity<S> velocity{call.input<S>(2), call.output<S>(1)};
                       pieces(call, begin, end, [&](int64_t first, int64_t last, const uint32_t* bits) {
                         dispatched<momentum_step<T, S>>(call.input<T>(0), call.input<A>(1),
                                                         call.output<T>(0), velocity, *call.input<A>(3),
                                                         momentum, bits, first, last);
                       });
                     });
}

template <class T>
std::unique_ptr<Kernel> momentum_kernel(const KernelContext& context) {
  return visit_slot_type<T>(context.inputs[2].dtype, [&]<class S>(std::type_identity<S>) {
    return momentum_kernel_of<T, S>(context);
  });
}

template <class T, class S>
std::unique_ptr<Kernel> adam_kernel_of(const KernelContext& context) {
  using A = Computed<T>;
  const auto& step = static_cast<const AdamStep&>(context.operation);
  const bool corrected = context.inputs.size() > 5;
  return make_kernel(
      context.outputs[0].local.size(), kElementsPerTask,
      [options = step.options, corrected, pieces = SlotPieces<S>(context, step.rounding)](
          const KernelCall& call, int64_t begin, int64_t end) {
        const AdamNumbers<A> numbers{*call.input<A>(4),
                                     static_cast<A>(options.beta1),
                                     static_cast<A>(1 - options.beta1),
                                     static_cast<A>(options.beta2),
                                     static_cast<A>(1 - options.beta2),
                                     static_cast<A>(options.epsilon),
                                     static_cast<A>(options.weight_decay),
                                     corrected ? *call.input<A>(5) : A(1),
                                     corrected ? *call.input<A>(6) : A(1)};
        const Moments<S> moments{call.input<S>(2), call.input<S>(3), call.output<S>(1), call.output<S>(2)};
        pieces(call, begin, end, [&](int64_t first, int64_t last, const uint32_t* bits) {
          dispatched<adam<T, S>>(call.input<T>(0), call.input<A>(1), call.output<T>(0), moments, numbers,
                                 bits, first, last);
        });
      });
}

template <class T>
std::unique_ptr<Kernel> adam_kernel(const KernelContext& context) {
  return visit_slot_type<T>(context.inputs[2].dtype,
                            [&]<class S>(std::type_identity<S>) { return adam_kernel_of<T, S>(context); });
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
