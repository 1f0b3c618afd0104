// Layer norm and RMS norm, one row at a time. The row stays in cache between the passes for its statistics
// and its result. What is fused with them (FusedIntoNorm) has loops of its own over a row, so that the compiler
// cannot contract it with the norm: the bits are those of separate operations.
#include "engine/ops/normalization.h"

#include <cmath>

#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/backend/cpu/rows/row_buffers.h"
#include "engine/base/dispatch.h"

namespace mtf {
namespace {

/// Those that an operation lacks are null.
template <class T>
struct Operands {
  using A = Computed<T>;
  const T* x = nullptr;
  const T* dy = nullptr;
  const T* scale = nullptr;
  const T* bias = nullptr;
  const T* mask = nullptr;
  const T* addend = nullptr;

  [[gnu::always_inline]] A factor(int64_t row) const { return mask != nullptr ? widen(mask[row]) : A(1); }
};

/// Rounds a row and multiplies it.
template <class T>
MTF_INLINE void multiply_row(Computed<T>* row, int64_t n, Computed<T> factor) {
  if (factor == 1) return;
  for (int64_t i = 0; i < n; ++i) row[i] = widen(narrow<T>(row[i])) * factor;
}

/// Returns n elements times `factor`, rounded: themselves, or in the buffer.
template <class T>
MTF_INLINE const Computed<T>* load_multiplied(const T* from, int64_t n, int64_t stride, Computed<T> factor,
                                              Computed<T>* buffer) {
  const Computed<T>* loaded = load_elements(from, n, stride, buffer);
  if (factor == 1) return loaded;
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) buffer[i] = widen(narrow<T>(loaded[i] * factor));
  return buffer;
}

/// Writes a row that was computed in a buffer, rounded, plus that of the addend.
template <class T>
MTF_INLINE void store_row_plus(const Rows& rows, const Computed<T>* computed, const T* addend, T* data,
                               int64_t row) {
  T* to = data + rows.offset(row);
  const T* more = addend + rows.offset(row);
#pragma GCC ivdep
  for (int64_t i = 0; i < rows.length; ++i) {
    to[i * rows.stride] = narrow<T>(widen(narrow<T>(computed[i])) + widen(more[i * rows.stride]));
  }
}

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
    multiply_row<T>(out, n, in.factor(r));
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
    const A* dy = load_multiplied(in.dy + rows.offset(r), n, rows.stride, in.factor(r), buffer + room);
    A* out = in.addend != nullptr ? buffer : row_target(rows, dx, r, buffer);
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
    in.addend != nullptr ? store_row_plus(rows, out, in.addend, dx, r) : store_row(rows, out, dx, r);
  }
}

/// The columns of a task: few enough that their sums stay in cache while all rows are read.
constexpr int64_t kColumnsPerTask = 64;

/// Sums columns [begin, end) over all rows. Rows are added in blocks, so that long sums keep their accuracy.
template <class T>
MTF_INLINE void add_columns(const Rows& rows, const Operands<T>& in, const Computed<T>* rstds,
                            const Computed<T>* means, Computed<T>* d_scale, Computed<T>* d_bias,
                            int64_t begin, int64_t end) {
  using A = Computed<T>;
  constexpr int64_t kRowsPerBlock = 128;
  const int64_t n = end - begin;
  A scale_total[kColumnsPerTask] = {}, bias_total[kColumnsPerTask] = {}, buffer[kColumnsPerTask];
  for (int64_t first = 0; first < rows.count; first += kRowsPerBlock) {
    A scale_block[kColumnsPerTask] = {}, bias_block[kColumnsPerTask] = {};
    for (int64_t r = first; r < std::min(rows.count, first + kRowsPerBlock); ++r) {
      const int64_t offset = rows.offset(r) + begin * rows.stride;
      const T* x = in.x + offset;
      const A* dy = load_multiplied(in.dy + offset, n, rows.stride, in.factor(r), buffer);
      const A mean = means != nullptr ? means[r] : A(0), rstd = rstds[r];
      for (int64_t j = 0; j < n; ++j) {
        scale_block[j] += dy[j] * ((widen(x[j * rows.stride]) - mean) * rstd);
        bias_block[j] += dy[j];
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
      [rows, epsilon = operation.epsilon, centered = operation.centered(), mask = operation.fused.mask](
          const KernelCall& call, int64_t begin, int64_t end) {
        using A = Computed<T>;
        const Operands<T> in{.x = call.input<T>(0),
                             .scale = call.input<T>(1),
                             .bias = centered ? call.input<T>(2) : nullptr,
                             .mask = mask ? call.input<T>(centered ? 3 : 2) : nullptr};
        dispatched<normalize_rows<T>>(rows, in, epsilon, call.output<T>(0), call.output<A>(1),
                                      centered ? call.output<A>(2) : nullptr,
                                      reinterpret_cast<A*>(call.scratch), begin, end);
      },
      three_rows<T>(rows));
}

template <class T>
std::unique_ptr<Kernel> gradient_kernel(const KernelContext& context) {
  const auto& operation = static_cast<const NormalizationGradient&>(context.operation);
  MTF_CHECK(!operation.fused.parameters, "the CPU sums gradients of parameters in a kernel of its own");
  const Rows rows = rows_along(context.inputs[0], operation.dimension);
  return make_kernel(
      rows.count, rows_per_task(rows),
      [rows, centered = operation.centered(), fused = operation.fused, mask = operation.mask_input(),
       addend = operation.addend_input()](const KernelCall& call, int64_t begin, int64_t end) {
        using A = Computed<T>;
        const Operands<T> in{.x = call.input<T>(0),
                             .dy = call.input<T>(2),
                             .scale = call.input<T>(1),
                             .mask = fused.mask ? call.input<T>(mask) : nullptr,
                             .addend = fused.addend ? call.input<T>(addend) : nullptr};
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
      [rows, centered = operation.centered(), fused = operation.fused.mask, mask = operation.mask_input()](
          const KernelCall& call, int64_t begin, int64_t end) {
        using A = Computed<T>;
        const Operands<T> in{
            .x = call.input<T>(0), .dy = call.input<T>(1), .mask = fused ? call.input<T>(mask) : nullptr};
        dispatched<add_columns<T>>(rows, in, call.input<A>(2), centered ? call.input<A>(3) : nullptr,
                                   call.output<A>(0), centered ? call.output<A>(1) : nullptr, begin, end);
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
