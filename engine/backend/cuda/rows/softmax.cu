// Softmax, log-softmax and log-sum-exp. Rows that fit into registers are read once; long ones once for the
// sum of exponentials and once for the result.
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

  A extra;  ///< one more logit; -infinity: none

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

/// Softmax or its logarithm.
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
      for (int n = 0; n < E::kCount; ++n) y[n] = math::exp(x.in[0][n] - row.top) * row.scale;
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

/// Rows of the first input along the operation's dimension.
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

template <class T>
struct Registrations {
  static constexpr DType dtype = DTypeOf<T>::value;
  DeviceKernelRegistration probability{"softmax", {dtype}, softmax<T, false>};
  DeviceKernelRegistration logarithm{"log_softmax", {dtype}, softmax<T, true>};
  DeviceKernelRegistration log_sum{"logsumexp", {dtype}, logsumexp<T>};
};
const Registrations<float> registrations_f32;
const Registrations<double> registrations_f64;
const Registrations<BFloat16> registrations_bf16;

}  // namespace
}  // namespace mtf::cuda
