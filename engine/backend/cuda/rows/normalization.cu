// Layer norm and RMS norm. A row stays in registers between its statistics and the result.
#include "engine/backend/cuda/device/math.h"
#include "engine/backend/cuda/rows/row_functions.h"
#include "engine/ops/normalization.h"

namespace mtf::cuda {
namespace {

/// Count, mean and sum of squared deviations (Chan, Golub and LeVeque, Updating formulae and a pairwise
/// algorithm for computing sample variances, 1979).
template <class A>
struct Moments {
  A count = 0, mean = 0, squares = 0;

  template <class Each>
  MTF_DEVICE Moments each(Each f) const {
    const A new_count = f(count), new_mean = f(mean);
    return {new_count, new_mean, f(squares)};
  }
  MTF_DEVICE Moments operator+(const Moments& other) const {
    const A total = count + other.count;
    const A share = other.count == 0 ? A(0) : other.count / total;
    const A difference = other.mean - mean;
    return {total, mean + difference * share,
            squares + other.squares + difference * difference * count * share};
  }
};

/// For RMS norm the bias and the means are null, and the mean is taken to be 0. The mask is null unless it is fused.
template <class T>
struct NormalizedRows : RowOperands<T, 1> {
  using A = Computed<T>;
  static constexpr bool kReduces = true, kMaps = true;
  using State = Moments<A>;
  struct Row {
    A mean, rstd, factor;
  };

  const T *scale, *bias, *mask;
  A *rstds, *means;
  A epsilon;

  MTF_DEVICE Row begin(const RowPlace& place) const {
    return {0, 0, mask != nullptr ? widen(mask[place.row]) : A(1)};
  }
  MTF_DEVICE State identity(const Row&) const { return {}; }
  template <class E>
  MTF_DEVICE void take(const Row&, State& state, const E& e) const {
    constexpr A kCount = E::kCount;
    const auto& x = e.in[0];
    A mean = 0, squares = 0;
    if (bias != nullptr) {
      for (int n = 0; n < E::kCount; ++n) mean += x[n];
      mean /= kCount;
    }
    for (int n = 0; n < E::kCount; ++n) squares += (x[n] - mean) * (x[n] - mean);
    state = state + State{kCount, mean, squares};
  }
  static MTF_DEVICE State combine(const State& a, const State& b) { return a + b; }
  MTF_DEVICE void finish(Row& row, int64_t r, const State& state, bool writes) const {
    row.mean = state.mean;
    row.rstd = A(1) / Math::sqrt(state.squares / state.count + epsilon);
    if (!writes) return;
    rstds[r] = row.rstd;
    if (bias != nullptr) means[r] = row.mean;
  }
  template <class E>
  MTF_DEVICE void apply(const Row& row, const E& e, A (&y)[E::kCount]) const {
    A factors[E::kCount], terms[E::kCount] = {};
    load_parameters(e, scale, factors);
    if (bias != nullptr) load_parameters(e, bias, terms);
    for (int n = 0; n < E::kCount; ++n) {
      const A normal = (e.in[0][n] - row.mean) * row.rstd * factors[n] + terms[n];
      y[n] = widen(narrow<T>(normal)) * row.factor;
    }
  }
};

template <class T>
std::unique_ptr<Kernel> normalization_kernel(const KernelContext& context, Device& device) {
  const auto& operation = static_cast<const Normalization&>(context.operation);
  using A = Computed<T>;
  return row_kernel<NormalizedRows<T>>(
      rows_along(context.inputs[0], operation.dimension), device,
      [epsilon = static_cast<A>(operation.epsilon), centered = operation.centered(),
       mask = operation.fused.mask](const KernelCall& call) {
        return NormalizedRows<T>{{{call.input<T>(0)}, call.output<T>(0)},
                                 call.input<T>(1),
                                 centered ? call.input<T>(2) : nullptr,
                                 mask ? call.input<T>(centered ? 3 : 2) : nullptr,
                                 call.output<A>(1),
                                 centered ? call.output<A>(2) : nullptr,
                                 epsilon};
      });
}

template <class T>
struct NormalizationKernels {
  static constexpr DType dtype = DTypeOf<T>::value;
  DeviceKernelRegistration layer{"layer_norm", {dtype}, normalization_kernel<T>};
  DeviceKernelRegistration rms{"rms_norm", {dtype}, normalization_kernel<T>};
};
const NormalizationKernels<float> normalization_f32;
const NormalizationKernels<double> normalization_f64;
const NormalizationKernels<BFloat16> normalization_bf16;

}  // namespace
}  // namespace mtf::cuda
