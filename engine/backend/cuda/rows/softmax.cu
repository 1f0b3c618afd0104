// Softmax, log-softmax and log-sum-exp, and their gradients. Rows that fit into registers are read once;
// longer ones are read once for the sum of exponentials and once for the result.
#include "engine/backend/cuda/rows/log_sum.h"
#include "engine/backend/cuda/rows/row_functions.h"
#include "engine/ops/softmax.h"

namespace mtf::cuda {
namespace {

template <class T>
struct Exponentials : RowOperands<T, 1> {
  using A = Computed<T>;
  static constexpr bool kReduces = true;
  using State = LogSum<A>;
  struct Row {
    A top, scale, log_z;
  };

  A extra;  ///< extra logit; -infinity if there is none

  MTF_DEVICE Row begin(const RowPlace&) const { return {}; }
  MTF_DEVICE State identity(const Row&) const { return {}; }
  template <class E>
  MTF_DEVICE void take(const Row&, State& state, const E& x) const {
    state.add(x.in[0]);
  }
  static MTF_DEVICE State combine(const State& a, const State& b) { return a + b; }
  MTF_DEVICE State with_extra(const State& state) const {
    return state + State{extra, extra == State::kNone ? A(0) : A(1)};
  }
};

/// Computes softmax or its logarithm.
template <class T>
struct SoftmaxRows : Exponentials<T> {
  using Base = Exponentials<T>;
  using typename Base::A, typename Base::Row, typename Base::State;
  static constexpr bool kMaps = true;

  bool logarithm;

  MTF_DEVICE void finish(Row& row, int64_t, const State& state, bool) const {
    const State whole = Base::with_extra(state);
    row = {whole.reference(), A(1) / whole.sum, whole.log()};
  }
  template <class E>
  MTF_DEVICE void apply(const Row& row, const E& x, A (&y)[E::kCount]) const {
    if (logarithm) {
      for (int n = 0; n < E::kCount; ++n) y[n] = x.in[0][n] - row.log_z;
    } else {
      for (int n = 0; n < E::kCount; ++n) y[n] = Math::exp(x.in[0][n] - row.top) * row.scale;
    }
  }
};

template <class T>
struct LogSumExpRows : Exponentials<T> {
  using Base = Exponentials<T>;
  using typename Base::A, typename Base::Row, typename Base::State;
  static constexpr bool kMaps = false;

  A* log_z;

  MTF_DEVICE void finish(Row&, int64_t row, const State& state, bool writes) const {
    if (writes) log_z[row] = Base::with_extra(state).log();
  }
};

/// For softmax, dx = y * (dy - sum(y * dy)); for its logarithm, dx = dy - exp(y) * sum(dy).
template <class T>
struct SoftmaxGradientRows : RowOperands<T, 2> {
  using A = Computed<T>;
  static constexpr bool kReduces = true, kMaps = true;
  using State = A;
  using Row = A;

  bool logarithm;

  MTF_DEVICE Row begin(const RowPlace&) const { return 0; }
  MTF_DEVICE State identity(const Row&) const { return 0; }
  template <class E>
  MTF_DEVICE void take(const Row&, State& sum, const E& e) const {
    const auto &y = e.in[0], &dy = e.in[1];
    A some = 0;
    for (int n = 0; n < E::kCount; ++n) some += logarithm ? dy[n] : y[n] * dy[n];
    sum += some;
  }
  static MTF_DEVICE State combine(State a, State b) { return a + b; }
  MTF_DEVICE void finish(Row& sum, int64_t, State whole, bool) const { sum = whole; }
  template <class E>
  MTF_DEVICE void apply(const Row& sum, const E& e, A (&dx)[E::kCount]) const {
    const auto &y = e.in[0], &dy = e.in[1];
    if (logarithm) {
      for (int n = 0; n < E::kCount; ++n) dx[n] = dy[n] - Math::exp(y[n]) * sum;
    } else {
      for (int n = 0; n < E::kCount; ++n) dx[n] = y[n] * (dy[n] - sum);
    }
  }
};

/// dx = exp(x - log_z) * dy.
template <class T>
struct LogSumExpGradientRows : RowOperands<T, 1> {
  using A = Computed<T>;
  static constexpr bool kReduces = false, kMaps = true;
  struct Row {
    A log_z, dy;
  };

  const A *log_z, *dy;

  MTF_DEVICE Row begin(const RowPlace& place) const { return {log_z[place.row], dy[place.row]}; }
  template <class E>
  MTF_DEVICE void apply(const Row& row, const E& x, A (&dx)[E::kCount]) const {
    for (int n = 0; n < E::kCount; ++n) dx[n] = Math::exp(x.in[0][n] - row.log_z) * row.dy;
  }
};

/// The rows of the first input along the operation's dimension.
Rows rows_of(const KernelContext& context) {
  return rows_along(context.inputs[0], static_cast<const AlongDimension&>(context.operation).dimension);
}

template <class T>
Computed<T> extra_logit(const KernelContext& context) {
  const auto& operation = static_cast<const AlongDimension&>(context.operation);
  return static_cast<Computed<T>>(operation.extra_logit.value_or(-std::numeric_limits<double>::infinity()));
}

template <class T, bool Logarithm>
std::unique_ptr<Kernel> softmax(const KernelContext& context, Device& device) {
  return row_kernel<SoftmaxRows<T>>(
      rows_of(context), device, [extra = extra_logit<T>(context)](const KernelCall& call) {
        return SoftmaxRows<T>{{{{call.input<T>(0)}, call.output<T>(0)}, extra}, Logarithm};
      });
}

template <class T>
std::unique_ptr<Kernel> logsumexp(const KernelContext& context, Device& device) {
  return row_kernel<LogSumExpRows<T>>(
      rows_of(context), device, [extra = extra_logit<T>(context)](const KernelCall& call) {
        return LogSumExpRows<T>{{{{call.input<T>(0)}, nullptr}, extra}, call.output<Computed<T>>(0)};
      });
}

template <class T, bool Logarithm>
std::unique_ptr<Kernel> softmax_gradient(const KernelContext& context, Device& device) {
  return row_kernel<SoftmaxGradientRows<T>>(rows_of(context), device, [](const KernelCall& call) {
    return SoftmaxGradientRows<T>{{{call.input<T>(0), call.input<T>(1)}, call.output<T>(0)}, Logarithm};
  });
}

template <class T>
std::unique_ptr<Kernel> logsumexp_gradient(const KernelContext& context, Device& device) {
  using A = Computed<T>;
  return row_kernel<LogSumExpGradientRows<T>>(rows_of(context), device, [](const KernelCall& call) {
    return LogSumExpGradientRows<T>{
        {{call.input<T>(0)}, call.output<T>(0)}, call.input<A>(1), call.input<A>(2)};
  });
}

template <class T>
struct SoftmaxKernels {
  static constexpr DType dtype = DTypeOf<T>::value;
  DeviceKernelRegistration probability{"softmax", {dtype}, softmax<T, false>};
  DeviceKernelRegistration logarithm{"log_softmax", {dtype}, softmax<T, true>};
  DeviceKernelRegistration log_sum{"logsumexp", {dtype}, logsumexp<T>};
  DeviceKernelRegistration gradient{"softmax_gradient", {dtype}, softmax_gradient<T, false>};
  DeviceKernelRegistration logarithm_gradient{"log_softmax_gradient", {dtype}, softmax_gradient<T, true>};
  DeviceKernelRegistration log_sum_gradient{"logsumexp_gradient", {dtype}, logsumexp_gradient<T>};
};
const SoftmaxKernels<float> softmax_f32;
const SoftmaxKernels<double> softmax_f64;
const SoftmaxKernels<BFloat16> softmax_bf16;

}  // namespace
}  // namespace mtf::cuda
