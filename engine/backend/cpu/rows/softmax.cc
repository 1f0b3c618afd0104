// Softmax, log-softmax, log-sum-exp and their gradients, one row at a time: one pass for the maximum, one for
// the exponentials and their sum, one to scale. The row stays in cache in between. Outputs may overwrite
// inputs.
#include "engine/ops/softmax.h"

#include <cmath>

#include "engine/backend/cpu/elementwise/cpu_math.h"
#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/backend/cpu/rows/row_buffers.h"
#include "engine/base/dispatch.h"
#include "engine/base/reproducible_math.h"

namespace mtf {
namespace {

constexpr double kNoExtra = -std::numeric_limits<double>::infinity();

/// The largest logit and the sum of exp(x[i] - top), with the extra logit. If y is not null, it is set to
/// y[i] = exp(x[i] - top).
template <class A>
struct Exponentials {
  A top, sum;
};
template <class A>
MTF_INLINE Exponentials<A> exponentials(const A* x, A* y, int64_t n, double extra_logit) {
  const A extra = static_cast<A>(extra_logit);
  A top = std::max(maximum_of(x, n), extra);
  if (top == -std::numeric_limits<A>::infinity()) top = 0;
  A sum = CpuMath::exp_of_nonpositive(extra - top);
  if (y != nullptr) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      const A e = CpuMath::exp_of_nonpositive(x[i] - top);
      y[i] = e;
      sum += e;
    }
  } else {
    for (int64_t i = 0; i < n; ++i) sum += CpuMath::exp_of_nonpositive(x[i] - top);
  }
  return {top, sum};
}

template <class T>
MTF_INLINE void softmax_rows(const Rows& rows, const T* x, T* y, Computed<T>* buffer, double extra_logit,
                             int64_t begin, int64_t end) {
  using A = Computed<T>;
  for (int64_t r = begin; r < end; ++r) {
    const A* in = load_row(rows, x, r, buffer);
    A* out = row_target(rows, y, r, buffer);
    const A scale = A(1) / exponentials(in, out, rows.length, extra_logit).sum;
    for (int64_t i = 0; i < rows.length; ++i) out[i] *= scale;
    store_row(rows, out, y, r);
  }
}

template <class T>
MTF_INLINE void log_softmax_rows(const Rows& rows, const T* x, T* y, Computed<T>* buffer, double extra_logit,
                                 int64_t begin, int64_t end) {
  using A = Computed<T>;
  for (int64_t r = begin; r < end; ++r) {
    const A* in = load_row(rows, x, r, buffer);
    A* out = row_target(rows, y, r, buffer);
    const auto [top, sum] = exponentials<A>(in, nullptr, rows.length, extra_logit);
    const A log_z = reproducible::log(sum) + top;
#pragma GCC ivdep
    for (int64_t i = 0; i < rows.length; ++i) out[i] = in[i] - log_z;
    store_row(rows, out, y, r);
  }
}

template <class T>
MTF_INLINE void logsumexp_rows(const Rows& rows, const T* x, Computed<T>* log_z, Computed<T>* buffer,
                               double extra_logit, int64_t begin, int64_t end) {
  using A = Computed<T>;
  for (int64_t r = begin; r < end; ++r) {
    const auto [top, sum] = exponentials<A>(load_row(rows, x, r, buffer), nullptr, rows.length, extra_logit);
    log_z[r] = reproducible::log(sum) + top;
  }
}

template <class T>
MTF_INLINE void logsumexp_gradient_rows(const Rows& rows, const T* x, const Computed<T>* log_z,
                                        const Computed<T>* dy, T* dx, Computed<T>* buffer, int64_t begin,
                                        int64_t end) {
  using A = Computed<T>;
  for (int64_t r = begin; r < end; ++r) {
    const A* in = load_row(rows, x, r, buffer);
    A* out = row_target(rows, dx, r, buffer);
    const A shift = log_z[r], scale = dy[r];
#pragma GCC ivdep
    for (int64_t i = 0; i < rows.length; ++i) out[i] = CpuMath::exp(in[i] - shift) * scale;
    store_row(rows, out, dx, r);
  }
}

template <class T>
MTF_INLINE void softmax_gradient_rows(const Rows& rows, const T* y, const T* dy, T* dx, Computed<T>* buffer,
                                      int64_t begin, int64_t end) {
  using A = Computed<T>;
  for (int64_t r = begin; r < end; ++r) {
    const A* p = load_row(rows, y, r, buffer);
    const A* g = load_row(rows, dy, r, buffer + buffer_size(rows));
    A* out = row_target(rows, dx, r, buffer);
    A sum = 0;
    for (int64_t i = 0; i < rows.length; ++i) sum += p[i] * g[i];
#pragma GCC ivdep
    for (int64_t i = 0; i < rows.length; ++i) out[i] = p[i] * (g[i] - sum);
    store_row(rows, out, dx, r);
  }
}

template <class T>
MTF_INLINE void log_softmax_gradient_rows(const Rows& rows, const T* y, const T* dy, T* dx,
                                          Computed<T>* buffer, int64_t begin, int64_t end) {
  using A = Computed<T>;
  for (int64_t r = begin; r < end; ++r) {
    const A* log_p = load_row(rows, y, r, buffer);
    const A* g = load_row(rows, dy, r, buffer + buffer_size(rows));
    A* out = row_target(rows, dx, r, buffer);
    A sum = 0;
    for (int64_t i = 0; i < rows.length; ++i) sum += g[i];
#pragma GCC ivdep
    for (int64_t i = 0; i < rows.length; ++i) out[i] = g[i] - CpuMath::exp(log_p[i]) * sum;
    store_row(rows, out, dx, r);
  }
}

/// A kernel over the rows of the first input along the operation's dimension, with two row buffers.
template <class T, class Body>
std::unique_ptr<Kernel> row_kernel(const KernelContext& context, Body body) {
  const auto& operation = static_cast<const AlongDimension&>(context.operation);
  const Rows rows = rows_along(context.inputs[0], operation.dimension);
  const double extra = operation.extra_logit.value_or(kNoExtra);
  return make_kernel(
      rows.count, rows_per_task(rows),
      [=](const KernelCall& call, int64_t begin, int64_t end) {
        body(rows, call, reinterpret_cast<Computed<T>*>(call.scratch), extra, begin, end);
      },
      2 * static_cast<size_t>(buffer_size(rows)) * sizeof(Computed<T>));
}

template <class T>
std::unique_ptr<Kernel> softmax_kernel(const KernelContext& context) {
  return row_kernel<T>(context, [](const Rows& rows, const KernelCall& call, Computed<T>* buffer,
                                   double extra, int64_t begin, int64_t end) {
    dispatched<softmax_rows<T>>(rows, call.input<T>(0), call.output<T>(0), buffer, extra, begin, end);
  });
}

template <class T>
std::unique_ptr<Kernel> log_softmax_kernel(const KernelContext& context) {
  return row_kernel<T>(context, [](const Rows& rows, const KernelCall& call, Computed<T>* buffer,
                                   double extra, int64_t begin, int64_t end) {
    dispatched<log_softmax_rows<T>>(rows, call.input<T>(0), call.output<T>(0), buffer, extra, begin, end);
  });
}

template <class T>
std::unique_ptr<Kernel> logsumexp_kernel(const KernelContext& context) {
  return row_kernel<T>(context, [](const Rows& rows, const KernelCall& call, Computed<T>* buffer,
                                   double extra, int64_t begin, int64_t end) {
    dispatched<logsumexp_rows<T>>(rows, call.input<T>(0), call.output<Computed<T>>(0), buffer, extra, begin,
                                  end);
  });
}

template <class T>
std::unique_ptr<Kernel> logsumexp_gradient_kernel(const KernelContext& context) {
  return row_kernel<T>(context, [](const Rows& rows, const KernelCall& call, Computed<T>* buffer, double,
                                   int64_t begin, int64_t end) {
    dispatched<logsumexp_gradient_rows<T>>(rows, call.input<T>(0), call.input<Computed<T>>(1),
                                           call.input<Computed<T>>(2), call.output<T>(0), buffer, begin, end);
  });
}

template <class T>
std::unique_ptr<Kernel> softmax_gradient_kernel(const KernelContext& context) {
  return row_kernel<T>(context, [](const Rows& rows, const KernelCall& call, Computed<T>* buffer, double,
                                   int64_t begin, int64_t end) {
    dispatched<softmax_gradient_rows<T>>(rows, call.input<T>(0), call.input<T>(1), call.output<T>(0), buffer,
                                         begin, end);
  });
}

template <class T>
std::unique_ptr<Kernel> log_softmax_gradient_kernel(const KernelContext& context) {
  return row_kernel<T>(context, [](const Rows& rows, const KernelCall& call, Computed<T>* buffer, double,
                                   int64_t begin, int64_t end) {
    dispatched<log_softmax_gradient_rows<T>>(rows, call.input<T>(0), call.input<T>(1), call.output<T>(0),
                                             buffer, begin, end);
  });
}

template <class T>
struct Registrations {
  static constexpr DType dtype = DTypeOf<T>::value;
  KernelRegistration softmax{"softmax", {dtype}, softmax_kernel<T>};
  KernelRegistration softmax_gradient{"softmax_gradient", {dtype}, softmax_gradient_kernel<T>};
  KernelRegistration log_softmax{"log_softmax", {dtype}, log_softmax_kernel<T>};
  KernelRegistration log_softmax_gradient{"log_softmax_gradient", {dtype}, log_softmax_gradient_kernel<T>};
  KernelRegistration logsumexp{"logsumexp", {dtype}, logsumexp_kernel<T>};
  KernelRegistration logsumexp_gradient{"logsumexp_gradient", {dtype}, logsumexp_gradient_kernel<T>};
};
const Registrations<float> registrations_f32;
const Registrations<double> registrations_f64;
const Registrations<BFloat16> registrations_bf16;

}  // namespace
}  // namespace mtf
