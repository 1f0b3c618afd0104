// Softmax cross-entropy, one row of logits at a time. The forward pass reads the row for its maximum and
// then, from cache, for the exponentials; the gradient recomputes the probabilities from log_z, which no logit
// exceeds. Ids are compared with the begin of the slice, so a split vocabulary needs no one-hot tensors.
#include "engine/ops/cross_entropy.h"

#include <cmath>

#include "engine/backend/cpu/elementwise/cpu_math.h"
#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/backend/cpu/rows/row_buffers.h"
#include "engine/base/dispatch.h"
#include "engine/base/reproducible_math.h"

namespace mtf {
namespace {

/// The sums of a row relative to a reference logit `top`.
template <class A>
struct RowSums {
  A exponentials = 0;  ///< sum(exp(x - top))
  A logits = 0;        ///< sum(t * (x - top))
  A targets = 0;       ///< sum(t)
};

/// The sums of a row whose target is an id. `position` is its index within the slice; it is outside [0, n) if
/// the slice does not have it.
template <class A>
MTF_INLINE RowSums<A> sums_with_id(const A* x, int64_t n, A top, int64_t position, const Smoothing& smooth) {
  A exponentials = 0, total = 0;
  for (int64_t i = 0; i < n; ++i) exponentials += CpuMath::exp_of_nonpositive(x[i] - top);
  if (smooth.off != 0) {
    for (int64_t i = 0; i < n; ++i) total += x[i] - top;
  }
  const A on = static_cast<A>(smooth.on), off = static_cast<A>(smooth.off);
  RowSums<A> sums{exponentials, off * total, off * static_cast<A>(n)};
  if (position >= 0 && position < n) {
    sums.logits += on * (x[position] - top);
    sums.targets += on;
  }
  return sums;
}

template <class A>
MTF_INLINE RowSums<A> sums_with_values(const A* x, const A* t, int64_t n, A top) {
  A exponentials = 0, logits = 0, targets = 0;
  for (int64_t i = 0; i < n; ++i) {
    exponentials += CpuMath::exp_of_nonpositive(x[i] - top);
    logits += t[i] * (x[i] - top);
    targets += t[i];
  }
  return {exponentials, logits, targets};
}

/// The targets of all rows of a slice; either `ids` or `values` is set.
template <class T>
struct Targets {
  const int32_t* ids = nullptr;
  const T* values = nullptr;
  int64_t begin = 0;  ///< begin of the slice along the vocabulary
  Smoothing smooth;
};

template <class T>
MTF_INLINE RowSums<Computed<T>> row_sums(const Rows& rows, const Computed<T>* x, const Targets<T>& targets,
                                         Computed<T> top, int64_t row, Computed<T>* buffer) {
  if (targets.ids != nullptr)
    return sums_with_id(x, rows.length, top, targets.ids[row] - targets.begin, targets.smooth);
  return sums_with_values(x, load_row(rows, targets.values, row, buffer), rows.length, top);
}

template <class T>
MTF_INLINE void loss_rows(const Rows& rows, const T* logits, const Targets<T>& targets, double z_loss,
                          Computed<T>* loss, Computed<T>* log_z, Computed<T>* target_sum, Computed<T>* buffer,
                          int64_t begin, int64_t end) {
  using A = Computed<T>;
  for (int64_t r = begin; r < end; ++r) {
    const A* x = load_row(rows, logits, r, buffer);
    const A top = maximum_of(x, rows.length);
    const RowSums<A> sums = row_sums(rows, x, targets, top, r, buffer + buffer_size(rows));
    const A log_sum = reproducible::log(sums.exponentials);
    log_z[r] = log_sum + top;
    const A penalized = z_loss != 0 ? log_z[r] : 0;  // the square may overflow, and 0 * infinity is no number
    loss[r] = sums.targets * log_sum - sums.logits + static_cast<A>(z_loss) * penalized * penalized;
    target_sum[r] = sums.targets;
  }
}

template <class T>
MTF_INLINE void sum_rows(const Rows& rows, const T* logits, const Targets<T>& targets,
                         const Computed<T>* maximum, Computed<T>* exponentials, Computed<T>* target_logit,
                         Computed<T>* target_sum, Computed<T>* buffer, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const RowSums<Computed<T>> sums =
        row_sums(rows, load_row(rows, logits, r, buffer), targets, maximum[r], r, buffer + buffer_size(rows));
    exponentials[r] = sums.exponentials;
    target_logit[r] = sums.logits;
    target_sum[r] = sums.targets;
  }
}

/// The factors of a row's gradient: dx[i] = exp(x[i] - log_z) * scale - t[i] * d_loss.
template <class A>
struct RowGradient {
  const A *log_z, *target_sum, *d_loss, *d_log_z;
};

template <class T>
MTF_INLINE void gradient_rows(const Rows& rows, const T* logits, const Targets<T>& targets, double z_loss,
                              const RowGradient<Computed<T>>& given, T* d_logits, Computed<T>* buffer,
                              int64_t begin, int64_t end) {
  using A = Computed<T>;
  const A on = static_cast<A>(targets.smooth.on), off = static_cast<A>(targets.smooth.off);
  for (int64_t r = begin; r < end; ++r) {
    const A* x = load_row(rows, logits, r, buffer);
    A* dx = row_target(rows, d_logits, r, buffer);
    const A log_z = given.log_z[r], d_loss = given.d_loss[r];
    const A scale = d_loss * (given.target_sum[r] + 2 * static_cast<A>(z_loss) * log_z) + given.d_log_z[r];
    if (targets.ids != nullptr) {
      const A shift = off * d_loss;
#pragma GCC ivdep
      for (int64_t i = 0; i < rows.length; ++i)
        dx[i] = CpuMath::exp_of_nonpositive(x[i] - log_z) * scale - shift;
      const int64_t position = targets.ids[r] - targets.begin;
      if (position >= 0 && position < rows.length) dx[position] -= on * d_loss;
    } else {
      const A* t = load_row(rows, targets.values, r, buffer + buffer_size(rows));
#pragma GCC ivdep
      for (int64_t i = 0; i < rows.length; ++i)
        dx[i] = CpuMath::exp_of_nonpositive(x[i] - log_z) * scale - t[i] * d_loss;
    }
    store_row(rows, dx, d_logits, r);
  }
}

/// Reads the second operand as ids or as values.
template <class T>
struct TargetReader {
  bool ids;
  int axis;
  Smoothing smooth;

  TargetReader(const KernelContext& context, const Rows& rows, double label_smoothing)
      : ids(context.inputs[1].dtype == DType::kInt32),
        axis(rows.axis),
        smooth(smoothing(label_smoothing, context.inputs[0].global[rows.axis].size)) {}

  Targets<T> operator()(const KernelCall& call) const {
    return ids ? Targets<T>{call.input<int32_t>(1), nullptr, call.inputs[0].begin[axis], smooth}
               : Targets<T>{nullptr, call.input<T>(1), 0, {}};
  }
};

template <class T>
size_t two_rows(const Rows& rows) {
  return 2 * static_cast<size_t>(buffer_size(rows)) * sizeof(Computed<T>);
}

template <class T>
std::unique_ptr<Kernel> loss_kernel(const KernelContext& context) {
  const auto& operation = static_cast<const SoftmaxCrossEntropy&>(context.operation);
  const Rows rows = rows_along(context.inputs[0], operation.vocab);
  const TargetReader<T> targets(context, rows, operation.options.label_smoothing);
  return make_kernel(
      rows.count, rows_per_task(rows),
      [rows, targets, z_loss = operation.options.z_loss](const KernelCall& call, int64_t begin, int64_t end) {
        using A = Computed<T>;
        dispatched<loss_rows<T>>(rows, call.input<T>(0), targets(call), z_loss, call.output<A>(0),
                                 call.output<A>(1), call.output<A>(2), reinterpret_cast<A*>(call.scratch),
                                 begin, end);
      },
      two_rows<T>(rows));
}

template <class T>
std::unique_ptr<Kernel> sums_kernel(const KernelContext& context) {
  const auto& operation = static_cast<const CrossEntropySums&>(context.operation);
  const Rows rows = rows_along(context.inputs[0], operation.vocab);
  const TargetReader<T> targets(context, rows, operation.label_smoothing);
  return make_kernel(
      rows.count, rows_per_task(rows),
      [rows, targets](const KernelCall& call, int64_t begin, int64_t end) {
        using A = Computed<T>;
        dispatched<sum_rows<T>>(rows, call.input<T>(0), targets(call), call.input<A>(2), call.output<A>(0),
                                call.output<A>(1), call.output<A>(2), reinterpret_cast<A*>(call.scratch),
                                begin, end);
      },
      two_rows<T>(rows));
}

template <class T>
std::unique_ptr<Kernel> gradient_kernel(const KernelContext& context) {
  const auto& operation = static_cast<const SoftmaxCrossEntropyGradient&>(context.operation);
  const Rows rows = rows_along(context.inputs[0], operation.vocab);
  const TargetReader<T> targets(context, rows, operation.options.label_smoothing);
  return make_kernel(
      rows.count, rows_per_task(rows),
      [rows, targets, z_loss = operation.options.z_loss](const KernelCall& call, int64_t begin, int64_t end) {
        using A = Computed<T>;
        const RowGradient<A> given{call.input<A>(2), call.input<A>(3), call.input<A>(4), call.input<A>(5)};
        dispatched<gradient_rows<T>>(rows, call.input<T>(0), targets(call), z_loss, given, call.output<T>(0),
                                     reinterpret_cast<A*>(call.scratch), begin, end);
      },
      two_rows<T>(rows));
}

template <class T>
struct Registrations {
  static constexpr DType dtype = DTypeOf<T>::value;
  KernelRegistration loss{"softmax_cross_entropy", {dtype}, loss_kernel<T>};
  KernelRegistration sums{"cross_entropy_sums", {dtype}, sums_kernel<T>};
  KernelRegistration gradient{"softmax_cross_entropy_gradient", {dtype}, gradient_kernel<T>};
};
const Registrations<float> registrations_f32;
const Registrations<double> registrations_f64;
const Registrations<BFloat16> registrations_bf16;

}  // namespace
}  // namespace mtf
