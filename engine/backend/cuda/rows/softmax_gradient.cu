// Gradients of softmax, log-softmax and log-sum-exp.
#include "engine/backend/cuda/math.h"
#include "engine/backend/cuda/rows/row_functions.h"
#include "engine/ops/softmax.h"

namespace mtf::cuda {
namespace {

/// Of softmax, dx = y * (dy - sum(y * dy)); of its logarithm, dx = dy - exp(y) * sum(dy).
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
      for (int n = 0; n < E::kCount; ++n) dx[n] = dy[n] - math::exp(y[n]) * sum;
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
    for (int n = 0; n < E::kCount; ++n) dx[n] = math::exp(x.in[0][n] - row.log_z) * row.dy;
  }
};

Rows rows_of(const KernelContext& context) {
  return rows_along(context.inputs[0], static_cast<const AlongDimension&>(context.operation).dimension);
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
struct Registrations {
  static constexpr DType dtype = DTypeOf<T>::value;
  DeviceKernelRegistration of_probability{"softmax_gradient", {dtype}, softmax_gradient<T, false>};
  DeviceKernelRegistration of_logarithm{"log_softmax_gradient", {dtype}, softmax_gradient<T, true>};
  DeviceKernelRegistration of_log_sum{"logsumexp_gradient", {dtype}, logsumexp_gradient<T>};
};
const Registrations<float> registrations_f32;
const Registrations<double> registrations_f64;
const Registrations<BFloat16> registrations_bf16;

}  // namespace
}  // namespace mtf::cuda
