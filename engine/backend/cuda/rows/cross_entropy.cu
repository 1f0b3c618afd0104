// Softmax cross-entropy: one pass over the logits for the loss and another one for the gradient; nothing of
// the logits' size is stored between them. Ids are compared with the begin of the slice, so a split
// vocabulary needs no one-hot tensors.
#include "engine/backend/cuda/rows/log_sum.h"
#include "engine/backend/cuda/rows/row_functions.h"
#include "engine/ops/cross_entropy.h"

namespace mtf::cuda {
namespace {

/// Targets that are given by ids.
template <class A>
struct Ids {
  const int32_t* ids = nullptr;
  int64_t begin = 0;  ///< begin of the slice along the vocabulary
  A on = 1, off = 0;  ///< Smoothing

  /// The id's index within the slice; negative or too large if another slice has it.
  MTF_DEVICE int64_t position(int64_t row) const { return ids[row] - begin; }
};

/// The logits and, unless they are ids, the targets.
template <class T, bool Values>
using Operands = RowOperands<T, Values ? 2 : 1>;

template <class T, bool Values>
struct CrossEntropyRows : Operands<T, Values> {
  using A = Computed<T>;
  static constexpr bool kReduces = true, kMaps = false;

  struct State {
    LogSum<A> exponentials;
    A logits = 0;   ///< sum of (targets *) (logits - shift)
    A targets = 0;  ///< sum of targets

    template <class Each>
    MTF_DEVICE State each(Each f) const {
      const LogSum<A> new_exponentials = exponentials.each(f);
      const A new_logits = f(logits);
      return {new_exponentials, new_logits, f(targets)};
    }
  };
  struct Row {
    A shift;    ///< any logit; sums of logits relative to it stay small
    A maximum;  ///< maximum of the row, if it is given
    A target_logit;
    bool has_target;
  };

  Ids<A> ids;
  int64_t length;
  A z_loss;
  const A* maximum;  ///< operand of cross_entropy_sums; null: the loss is computed
  /// Loss, log_z, sum of targets; or sums of exponentials, of targets * logits, and of targets.
  A* out[3];

  MTF_DEVICE Row begin(const RowPlace& place) const {
    const T* x = this->in[0] + place.offset;
    Row row{widen(x[0]), maximum == nullptr ? LogSum<A>::kNone : maximum[place.row], 0, false};
    if (!(row.shift - row.shift == 0)) row.shift = 0;  // not finite
    if constexpr (!Values) {
      const int64_t position = ids.position(place.row);
      row.has_target = position >= 0 && position < length;
      if (row.has_target) row.target_logit = widen(x[position * place.stride]);
    }
    return row;
  }
  MTF_DEVICE State identity(const Row& row) const { return {{row.maximum, 0}, 0, 0}; }
  template <class E>
  MTF_DEVICE void take(const Row& row, State& state, const E& e) const {
    const auto& x = e.in[0];
    state.exponentials.add(x);
    A logits = 0, targets = 0;
    if constexpr (Values) {
      for (int n = 0; n < E::kCount; ++n) {
        logits += e.in[1][n] * (x[n] - row.shift);
        targets += e.in[1][n];
      }
    } else if (ids.off != 0) {
      for (int n = 0; n < E::kCount; ++n) logits += x[n] - row.shift;
    }
    state.logits += logits;
    state.targets += targets;
  }
  static MTF_DEVICE State combine(const State& a, const State& b) {
    return {a.exponentials + b.exponentials, a.logits + b.logits, a.targets + b.targets};
  }
  MTF_DEVICE void finish(const Row& row, int64_t r, const State& state, bool writes) const {
    const A top = maximum == nullptr ? state.exponentials.top : row.maximum;
    // The result is NaN if all logits are -infinity.
    const A exponentials = state.exponentials.sum * Math::exp(state.exponentials.top - top);
    A logits, targets;
    if constexpr (Values) {
      logits = state.logits - (top - row.shift) * state.targets;
      targets = state.targets;
    } else {
      const A n = static_cast<A>(length);
      logits = ids.off == 0 ? A(0) : ids.off * (state.logits - n * (top - row.shift));
      targets = ids.off * n;
      if (row.has_target) {
        logits += ids.on * (row.target_logit - top);
        targets += ids.on;
      }
    }
    if (!writes) return;
    out[2][r] = targets;
    if (maximum != nullptr) {
      out[0][r] = exponentials;
      out[1][r] = logits;
    } else {
      const A log_sum = Math::log(exponentials), log_z = log_sum + top;
      const A penalized = z_loss != 0 ? log_z : 0;  // the square may overflow, and 0 * infinity is no number
      out[0][r] = targets * log_sum - logits + z_loss * penalized * penalized;
      out[1][r] = log_z;
    }
  }
};

/// dx = exp(x - log_z) * (d_loss * (sum of targets + 2 * z_loss * log_z) + d_log_z) - target * d_loss.
template <class T, bool Values>
struct GradientRows : Operands<T, Values> {
  using A = Computed<T>;
  static constexpr bool kReduces = false, kMaps = true;
  struct Row {
    A log_z, scale, d_loss;
    int64_t position;
  };

  Ids<A> ids;
  A z_loss;
  const A *log_z, *targets, *d_loss, *d_log_z;

  MTF_DEVICE Row begin(const RowPlace& place) const {
    const A log_z = this->log_z[place.row], d_loss = this->d_loss[place.row];
    const A scale = d_loss * (targets[place.row] + 2 * z_loss * log_z) + d_log_z[place.row];
    return {log_z, scale, d_loss, Values ? -1 : ids.position(place.row)};
  }
  template <class E>
  MTF_DEVICE void apply(const Row& row, const E& e, A (&dx)[E::kCount]) const {
    for (int n = 0; n < E::kCount; ++n) {
      const A product = Math::exp(e.in[0][n] - row.log_z) * row.scale;
      if constexpr (Values) {
        dx[n] = product - e.in[1][n] * row.d_loss;
      } else {
        dx[n] = product - ids.off * row.d_loss;
        if (e.first + n * e.step == row.position) dx[n] -= ids.on * row.d_loss;
      }
    }
  }
};

/// Calls visit(has_values) with a constant of the kind of targets in this context.
template <class Visit>
std::unique_ptr<Kernel> with_targets(const KernelContext& context, const Visit& visit) {
  if (context.inputs[1].dtype == DType::kInt32) return visit(std::false_type());
  return visit(std::true_type());
}

template <class T, bool Values>
struct Bound {
  using A = Computed<T>;
  Rows rows;
  Smoothing smooth;
  A z_loss;

  Bound(const KernelContext& context, const std::string& vocab, double label_smoothing, double z_loss)
      : rows(rows_along(context.inputs[0], vocab)),
        smooth(smoothing(label_smoothing, context.inputs[0].global[rows.axis].size)),
        z_loss(static_cast<A>(z_loss)) {}

  Operands<T, Values> operands(const KernelCall& call, T* out) const {
    if constexpr (Values) {
      return {{call.input<T>(0), call.input<T>(1)}, out};
    } else {
      return {{call.input<T>(0)}, out};
    }
  }
  Ids<A> ids(const KernelCall& call) const {
    if constexpr (Values) {
      return {};
    } else {
      return {call.input<int32_t>(1), call.inputs[0].begin[rows.axis], static_cast<A>(smooth.on),
              static_cast<A>(smooth.off)};
    }
  }
  CrossEntropyRows<T, Values> loss(const KernelCall& call, const A* maximum) const {
    return {operands(call, nullptr),
            ids(call),
            rows.length,
            z_loss,
            maximum,
            {call.output<A>(0), call.output<A>(1), call.output<A>(2)}};
  }
};

template <class T>
std::unique_ptr<Kernel> loss_kernel(const KernelContext& context, Device& device) {
  const auto& operation = static_cast<const SoftmaxCrossEntropy&>(context.operation);
  return with_targets(context, [&](auto values) {
    const Bound<T, values> bound(context, operation.vocab, operation.options.label_smoothing,
                                 operation.options.z_loss);
    return row_kernel<CrossEntropyRows<T, values>>(
        bound.rows, device, [bound](const KernelCall& call) { return bound.loss(call, nullptr); });
  });
}

template <class T>
std::unique_ptr<Kernel> sums_kernel(const KernelContext& context, Device& device) {
  const auto& operation = static_cast<const CrossEntropySums&>(context.operation);
  return with_targets(context, [&](auto values) {
    const Bound<T, values> bound(context, operation.vocab, operation.label_smoothing, 0);
    return row_kernel<CrossEntropyRows<T, values>>(bound.rows, device, [bound](const KernelCall& call) {
      return bound.loss(call, call.input<Computed<T>>(2));
    });
  });
}

template <class T>
std::unique_ptr<Kernel> gradient_kernel(const KernelContext& context, Device& device) {
  const auto& operation = static_cast<const SoftmaxCrossEntropyGradient&>(context.operation);
  return with_targets(context, [&](auto values) {
    const Bound<T, values> bound(context, operation.vocab, operation.options.label_smoothing,
                                 operation.options.z_loss);
    return row_kernel<GradientRows<T, values>>(bound.rows, device, [bound](const KernelCall& call) {
      using A = Computed<T>;
      return GradientRows<T, decltype(values)::value>{bound.operands(call, call.output<T>(0)),
                                                      bound.ids(call),
                                                      bound.z_loss,
                                                      call.input<A>(2),
                                                      call.input<A>(3),
                                                      call.input<A>(4),
                                                      call.input<A>(5)};
    });
  });
}

template <class T>
struct CrossEntropyKernels {
  static constexpr DType dtype = DTypeOf<T>::value;
  DeviceKernelRegistration loss{"softmax_cross_entropy", {dtype}, loss_kernel<T>};
  DeviceKernelRegistration sums{"cross_entropy_sums", {dtype}, sums_kernel<T>};
  DeviceKernelRegistration gradient{"softmax_cross_entropy_gradient", {dtype}, gradient_kernel<T>};
};
const CrossEntropyKernels<float> cross_entropy_f32;
const CrossEntropyKernels<double> cross_entropy_f64;
const CrossEntropyKernels<BFloat16> cross_entropy_bf16;

}  // namespace
}  // namespace mtf::cuda
