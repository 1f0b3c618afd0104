// Layer norm and RMS norm, one row at a time. The row stays in cache between the passes for its statistics
// and its result.
#include "engine/ops/normalization.h"

#include <cmath>

#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/backend/cpu/rows/row_buffers.h"
#include "engine/base/dispatch.h"

namespace mtf {
namespace {

template <class T>
struct Operands {
  using A = Computed<T>;
  const T* x = nullptr;
  const T* dy = nullptr;
  const T* scale = nullptr;
  const T* bias = nullptr;
};

template <class A>
MTF_INLINE A sum_of(const A* x, int64_t n) {
  A sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i];
  return sum;
}

/// Widens a parameter vector once for all rows.
template <class T>
MTF_INLINE const Computed<T>* widened(const T* values, int64_t n, Computed<T>* buffer) {
  if constexpr (std::is_same_v<T, Computed<T>>) {
    return values;
  } else {
    for (int64_t i = 0; i < n; ++i) buffer[i] = widen(values[i]);
    return buffer;
  }
}

/// For RMS norm the bias and the means are null.
template <class T>
MTF_INLINE void normalize_rows(const Rows& rows, const Operands<T>& in, double epsilon, T* y,
                               Computed<T>* rstds, Computed<T>* means, Computed<T>* buffer, int64_t begin,
                               int64_t end) {
  using A = Computed<T>;
  const int64_t n = rows.length, room = buffer_size(rows);
  const A* scale = widened(in.scale, n, buffer + room);
  const A* bias = in.bias != nullptr ? widened(in.bias, n, buffer + 2 * room) : nullptr;
  for (int64_t r = begin; r < end; ++r) {
    const A* x = load_row(rows, in.x, r, buffer);
    A* out = row_target(rows, y, r, buffer);
    const A mean = bias != nullptr ? sum_of(x, n) / static_cast<A>(n) : A(0);
    A squares = 0;
    for (int64_t i = 0; i < n; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const A rstd = A(1) / std::sqrt(squares / static_cast<A>(n) + static_cast<A>(epsilon));
    rstds[r] = rstd;
    if (bias != nullptr) {
      means[r] = mean;
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) out[i] = (x[i] - mean) * rstd * scale[i] + bias[i];
    } else {
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) out[i] = x[i] * rstd * scale[i];
    }
    store_row(rows, out, y, r);
  }
}

template <class T>
MTF_INLINE void gradient_rows(const Rows& rows, const Operands<T>& in, const Computed<T>* rstds,
                              const Computed<T>* means, T* dx, Computed<T>* buffer, int64_t begin,
                              int64_t end) {
  using A = Computed<T>;
  const int64_t n = rows.length, room = buffer_size(rows);
  const A* scale = widened(in.scale, n, buffer + 2 * room);
  for (int64_t r = begin; r < end; ++r) {
    const A* x = load_row(rows, in.x, r, buffer);
    const A* dy = load_row(rows, in.dy, r, buffer + room);
    A* out = row_target(rows, dx, r, buffer);
    const A mean = means != nullptr ? means[r] : A(0), rstd = rstds[r];
    A sum = 0, product = 0;
    for (int64_t i = 0; i < n; ++i) {
      const A g = dy[i] * scale[i];
      sum += g;
      product += g * ((x[i] - mean) * rstd);
    }
    const A mean_g = means != nullptr ? sum / static_cast<A>(n) : A(0),
            mean_product = product / static_cast<A>(n);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      const A normal = (x[i] - mean) * rstd;
      out[i] = rstd * (dy[i] * scale[i] - mean_g - normal * mean_product);
    }
    store_row(rows, out, dx, r);
  }
}

/// The columns of a task: few enough that their sums stay in cache while all rows are read.
constexpr int64_t kColumnsPerTask = 64;

/// Sums columns [begin, end) over all rows. Rows are added in blocks, so that long sums keep their accuracy.
template <class T>
MTF_INLINE void add_columns(const Rows& rows, const T* x, const T* dy, const Computed<T>* rstds,
                            const Computed<T>* means, Computed<T>* d_scale, Computed<T>* d_bias,
                            int64_t begin, int64_t end) {
  using A = Computed<T>;
  constexpr int64_t kRowsPerBlock = 128;
  const int64_t n = end - begin;
  A scale_total[kColumnsPerTask] = {}, bias_total[kColumnsPerTask] = {};
  for (int64_t first = 0; first < rows.count; first += kRowsPerBlock) {
    A scale_block[kColumnsPerTask] = {}, bias_block[kColumnsPerTask] = {};
    for (int64_t r = first; r < std::min(rows.count, first + kRowsPerBlock); ++r) {
      const T* x_row = x + rows.offset(r) + begin * rows.stride;
      const T* dy_row = dy + rows.offset(r) + begin * rows.stride;
      const A mean = means != nullptr ? means[r] : A(0), rstd = rstds[r];
      for (int64_t j = 0; j < n; ++j) {
        const A g = widen(dy_row[j * rows.stride]);
        scale_block[j] += g * ((widen(x_row[j * rows.stride]) - mean) * rstd);
        bias_block[j] += g;
      }
    }
    for (int64_t j = 0; j < n; ++j) {
      scale_total[j] += scale_block[j];
      bias_total[j] += bias_block[j];
    }
  }
  std::copy(scale_total, scale_total + n, d_scale + begin);
  if (d_bias != nullptr) std::copy(bias_total, bias_total + n, d_bias + begin);
}

template <class T>
size_t three_rows(const Rows& rows) {
  return 3 * static_cast<size_t>(buffer_size(rows)) * sizeof(Computed<T>);
}

template <class T>
std::unique_ptr<Kernel> normalization_kernel(const KernelContext& context) {
  const auto& operation = static_cast<const Normalization&>(context.operation);
  const Rows rows = rows_along(context.inputs[0], operation.dimension);
  return make_kernel(
      rows.count, rows_per_task(rows),
      [rows, epsilon = operation.epsilon, centered = operation.centered()](const KernelCall& call,
                                                                           int64_t begin, int64_t end) {
        using A = Computed<T>;
        const Operands<T> in{call.input<T>(0), nullptr, call.input<T>(1),
                             centered ? call.input<T>(2) : nullptr};
        dispatched<normalize_rows<T>>(rows, in, epsilon, call.output<T>(0), call.output<A>(1),
                                      centered ? call.output<A>(2) : nullptr,
                                      reinterpret_cast<A*>(call.scratch), begin, end);
      },
      three_rows<T>(rows));
}

template <class T>
std::unique_ptr<Kernel> gradient_kernel(const KernelContext& context) {
  const auto& operation = static_cast<const NormalizationGradient&>(context.operation);
  const Rows rows = rows_along(context.inputs[0], operation.dimension);
  return make_kernel(
      rows.count, rows_per_task(rows),
      [rows, centered = operation.centered()](const KernelCall& call, int64_t begin, int64_t end) {
        using A = Computed<T>;
        const Operands<T> in{call.input<T>(0), call.input<T>(2), call.input<T>(1), nullptr};
        dispatched<gradient_rows<T>>(rows, in, call.input<A>(3), centered ? call.input<A>(4) : nullptr,
                                     call.output<T>(0), reinterpret_cast<A*>(call.scratch), begin, end);
      },
      three_rows<T>(rows));
}

template <class T>
std::unique_ptr<Kernel> parameter_gradient_kernel(const KernelContext& context) {
  const auto& operation = static_cast<const NormalizationParameterGradient&>(context.operation);
  const Rows rows = rows_along(context.inputs[0], operation.dimension);
  return make_kernel(
      rows.length, kColumnsPerTask,
      [rows, centered = operation.centered()](const KernelCall& call, int64_t begin, int64_t end) {
        using A = Computed<T>;
        dispatched<add_columns<T>>(rows, call.input<T>(0), call.input<T>(1), call.input<A>(2),
                                   centered ? call.input<A>(3) : nullptr, call.output<A>(0),
                                   centered ? call.output<A>(1) : nullptr, begin, end);
      });
}

template <class T>
struct Registrations {
  static constexpr DType dtype = DTypeOf<T>::value;
  KernelRegistration layer{"layer_norm", {dtype}, normalization_kernel<T>};
  KernelRegistration rms{"rms_norm", {dtype}, normalization_kernel<T>};
  KernelRegistration layer_gradient{"layer_norm_gradient", {dtype}, gradient_kernel<T>};
  KernelRegistration rms_gradient{"rms_norm_gradient", {dtype}, gradient_kernel<T>};
  KernelRegistration layer_parameters{"layer_norm_parameter_gradient", {dtype}, parameter_gradient_kernel<T>};
  KernelRegistration rms_parameters{"rms_norm_parameter_gradient", {dtype}, parameter_gradient_kernel<T>};
};
const Registrations<float> registrations_f32;
const Registrations<double> registrations_f64;
const Registrations<BFloat16> registrations_bf16;

}  // namespace
}  // namespace mtf
