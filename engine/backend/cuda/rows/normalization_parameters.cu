// Sums over all rows: partial sums of parts of the rows, and their totals.
#include "engine/backend/cuda/device/thread_groups.h"
#include "engine/backend/cuda/rows/normalization_parameters.h"
#include "engine/ops/normalization.h"

namespace mtf::cuda {
namespace {

/// Partial sums of contiguous rows. A lane has N columns, each warp of a block a slot of its rows.
template <class T, int N, bool kCentered>
struct ColumnSums {
  using A = Computed<T>;
  static constexpr int kAtOnce = 4, kColumns = kWarp * N, kSums = kCentered ? 2 : 1;
  using Slots = SlotSums<A, N, kSums>;

  NormalizedOperands<T> in;
  A* partials;
  int64_t rows, columns, rows_of_part;
  Divisor parts;  ///< splits block numbers [group of columns, part]

  MTF_DEVICE void operator()(const Block& block) const {
    const auto [group, part] = parts(block.index());
    const int64_t column = group * kColumns + block.lane() * N, rest = columns - group * kColumns;
    const int64_t begin = part * rows_of_part, end = std::min(rows, begin + rows_of_part);
    A sums[kSums][N] = {};
    if (column < columns) {
      for (int64_t r = begin + block.warp(); r < end; r += kAtOnce * block.warps())
        add_rows(sums, r, block.warps(), end, column);
    }
    Slots slots(block, kWarp);
    MTF_UNROLL(kSums)
    for (int s = 0; s < kSums; ++s) slots.put(block.warp(), s, block.lane(), sums[s]);
    slots.finish(block.warps(), rest < kColumns ? static_cast<int>(rest) / N : kWarp,
                 partials + part * kSums * columns + group * kColumns, columns);
  }

 private:
  /// Adds rows r, r + step, ..., at most kAtOnce of them.
  MTF_DEVICE void add_rows(A (&sums)[kSums][N], int64_t r, int step, int64_t end, int64_t column) const {
    Pack<T, N> x[kAtOnce], dy[kAtOnce];
    typename NormalizedOperands<T>::Row row[kAtOnce];
    MTF_UNROLL(kAtOnce)
    for (int k = 0; k < kAtOnce; ++k) {
      const int64_t at = r + k * step;
      if (at < end) {
        x[k] = load<N>(in.x + at * columns + column);
        dy[k] = load<N>(in.dy + at * columns + column);
        row[k] = in.row(at);
      } else {
        x[k] = dy[k] = {};
        row[k] = {0, 0, 0};
      }
    }
    MTF_UNROLL(kAtOnce)
    for (int k = 0; k < kAtOnce; ++k) {
      for (int n = 0; n < N; ++n) {
        const A g = row[k].masked(widen(dy[k][n]));
        sums[0][n] += g * row[k].normal(widen(x[k][n]));
        if constexpr (kCentered) sums[1][n] += g;
      }
    }
  }
};

template <class A>
struct ScaleAndBias {
  A scale = 0, bias = 0;

  template <class Each>
  MTF_DEVICE ScaleAndBias each(Each f) const {
    const A new_scale = f(scale);
    return {new_scale, f(bias)};
  }
  MTF_DEVICE ScaleAndBias operator+(const ScaleAndBias& other) const {
    return {scale + other.scale, bias + other.bias};
  }
};

/// Partial sums of rows whose elements are `stride` apart. A group has a column and some rows.
template <class T>
struct ScatteredColumnSums {
  using A = Computed<T>;
  static constexpr int kMaxThreads = 512;

  NormalizedOperands<T> in;
  A* partials;
  ThreadGroups groups;  ///< with columns in the role of rows, and rows in that of elements
  Divisor stride;

  MTF_DEVICE void operator()(const Block& block) const {
    const ThreadGroup group(block, groups);
    const int64_t column = group.row(), columns = groups.rows;
    ScaleAndBias<A> whole, some;
    int count = 0;
    for (int i = group.rank(); i < group.count(); i += group.size()) {
      const int64_t r = group.begin() + i;
      const Division row = stride(r);
      const int64_t at = (row.quotient * columns + column) * stride.value() + row.remainder;
      const typename NormalizedOperands<T>::Row of_row = in.row(r);
      const A dy = of_row.masked(widen(in.dy[at]));
      some = some + ScaleAndBias<A>{dy * of_row.normal(widen(in.x[at])), dy};
      if (++count % 32 == 0) {
        whole = whole + some;
        some = {};
      }
    }
    const auto add = [](const ScaleAndBias<A>& a, const ScaleAndBias<A>& b) { return a + b; };
    const ScaleAndBias<A> sum = group.reduce_adjacent(block, whole + some, ScaleAndBias<A>(), add);
    if (!group.leads()) return;
    const bool has_bias = in.means != nullptr;
    A* of_part = partials + group.part() * columns * (has_bias ? 2 : 1);
    of_part[column] = sum.scale;
    if (has_bias) of_part[columns + column] = sum.bias;
  }
};

/// Adds the parts. Rows are the columns of the scale, then those of the bias.
template <class A>
struct AddParts {
  static constexpr int kMaxThreads = 512;
  const A* partials;
  A *d_scale, *d_bias;
  int64_t columns;
  ThreadGroups groups;

  MTF_DEVICE void operator()(const Block& block) const {
    const ThreadGroup group(block, groups);
    A sum = 0;
    for (int i = group.rank(); i < group.count(); i += group.size())
      sum += partials[group.offset() + i * group.stride()];
    sum = group.reduce(block, sum, A(0), Sum());
    if (!group.leads()) return;
    const int64_t row = group.row();
    (row < columns ? d_scale[row] : d_bias[row - columns]) = sum;
  }
};

template <class T, int N, bool kCentered>
void sum_columns(const Launcher& launch, const NormalizedOperands<T>& in, const Rows& rows,
                 Computed<T>* partials) {
  using Sums = ColumnSums<T, N, kCentered>;
  const RowParts cut = RowParts::of<T>(rows);
  const int64_t groups = (rows.length + Sums::kColumns - 1) / Sums::kColumns, blocks = groups * cut.parts;
  launch({blocks, cut.slots * kWarp, Sums::Slots::bytes(cut.slots, Sums::kColumns)},
         Sums{in, partials, rows.count, rows.length, cut.rows, Divisor(cut.parts, blocks)});
}

ThreadGroups scattered_groups(const Rows& rows) {
  return divided(contiguous_groups(rows.length, rows.count, 1));
}

template <class T>
std::unique_ptr<Kernel> parameter_gradient_kernel(const KernelContext& context, Device& device) {
  const auto& operation = static_cast<const NormalizationParameterGradient&>(context.operation);
  const bool centered = operation.centered();
  const ParameterSums<T> sums(rows_along(context.inputs[0], operation.dimension), centered);
  return make_device_kernel(
      device,
      [sums, centered, fused = operation.fused.mask, mask = operation.mask_input()](const Launcher& launch,
                                                                                    const KernelCall& call) {
        using A = Computed<T>;
        const NormalizedOperands<T> in{call.input<T>(0), call.input<T>(1), call.input<A>(2),
                                       centered ? call.input<A>(3) : nullptr,
                                       fused ? call.input<T>(mask) : nullptr};
        sums(launch, in, call.scratch, call.output<A>(0), centered ? call.output<A>(1) : nullptr);
      },
      sums.scratch_bytes());
}

template <class T>
struct ParameterGradientKernels {
  static constexpr DType dtype = DTypeOf<T>::value;
  DeviceKernelRegistration layer{"layer_norm_parameter_gradient", {dtype}, parameter_gradient_kernel<T>};
  DeviceKernelRegistration rms{"rms_norm_parameter_gradient", {dtype}, parameter_gradient_kernel<T>};
};
const ParameterGradientKernels<float> parameter_gradient_f32;
const ParameterGradientKernels<double> parameter_gradient_f64;
const ParameterGradientKernels<BFloat16> parameter_gradient_bf16;

}  // namespace

template <class T>
ParameterSums<T>::ParameterSums(const Rows& rows, bool centered)
    : rows_(rows),
      centered_(centered),
      sums_(rows.length * (centered ? 2 : 1)),
      parts_(rows.stride == 1 ? RowParts::of<T>(rows).parts : scattered_groups(rows).parts) {}

template <class T>
void ParameterSums<T>::operator()(const Launcher& launch, const NormalizedOperands<T>& in, std::byte* scratch,
                                  A* d_scale, A* d_bias) const {
  auto* partials = reinterpret_cast<A*>(scratch);
  constexpr int N = kPack<T>;
  if (rows_.stride != 1) {
    const ThreadGroups groups = scattered_groups(rows_);
    launch(groups.shape(sizeof(ScaleAndBias<A>)),
           ScatteredColumnSums<T>{in, partials, groups, Divisor(rows_.stride, rows_.count)});
  } else if (rows_.length % N == 0) {
    centered_ ? sum_columns<T, N, true>(launch, in, rows_, partials)
              : sum_columns<T, N, false>(launch, in, rows_, partials);
  } else {
    centered_ ? sum_columns<T, 1, true>(launch, in, rows_, partials)
              : sum_columns<T, 1, false>(launch, in, rows_, partials);
  }
  add_parts(launch, partials, d_scale, d_bias);
}

template <class T>
void ParameterSums<T>::add_parts(const Launcher& launch, const A* partials, A* d_scale, A* d_bias) const {
  constexpr int kNeighbours = 32 / static_cast<int>(sizeof(A));  // a sector of memory
  const ThreadGroups groups = interleaved_groups(sums_, parts_, sums_, kNeighbours);
  launch(groups.shape(sizeof(A)), AddParts<A>{partials, d_scale, d_bias, rows_.length, groups});
}

template class ParameterSums<float>;
template class ParameterSums<double>;
template class ParameterSums<BFloat16>;

}  // namespace mtf::cuda
