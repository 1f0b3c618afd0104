// Gradients of the scale and the bias of layer norm and RMS norm: sums over all rows, in two launches. The
// first sums some rows each and writes partial sums [part, scale or bias, column]; the second adds the parts.
#include "engine/backend/cuda/device/device_kernel.h"
#include "engine/backend/cuda/device/thread_groups.h"
#include "engine/backend/element.h"
#include "engine/ops/normalization.h"

namespace mtf::cuda {
namespace {

/// For RMS norm the means are null.
template <class T>
struct NormalizedOperands {
  using A = Computed<T>;
  const T *x, *dy;
  const A *rstds, *means;

  struct Row {
    A mean, rstd;
  };
  MTF_DEVICE Row row(int64_t r) const { return {means != nullptr ? means[r] : A(0), rstds[r]}; }
};

template <class A>
struct ParameterSums {
  A scale = 0, bias = 0;

  template <class Each>
  MTF_DEVICE ParameterSums each(Each f) const {
    const A new_scale = f(scale);
    return {new_scale, f(bias)};
  }
  MTF_DEVICE ParameterSums operator+(const ParameterSums& other) const {
    return {scale + other.scale, bias + other.bias};
  }
  template <class Row>
  MTF_DEVICE void add(A x, A dy, const Row& row) {
    scale += dy * ((x - row.mean) * row.rstd);
    bias += dy;
  }
  /// Stores the sums of a part in `partials`; only those of the scale if there is no bias.
  MTF_DEVICE void store(A* partials, int64_t column, int64_t columns, bool has_bias) const {
    partials[column] = scale;
    if (has_bias) partials[columns + column] = bias;
  }
};

/// Partial sums of contiguous rows. A lane has N columns, a warp every kWarps-th row of the block's part.
template <class T, int N>
struct ColumnSums {
  using A = Computed<T>;
  static constexpr int kWarps = 8, kAtOnce = 4, kColumns = kWarp * N;
  static constexpr int64_t kSharedBytes = kWarps * kColumns * static_cast<int64_t>(sizeof(ParameterSums<A>));

  NormalizedOperands<T> in;
  A* partials;
  int64_t rows, columns, rows_of_part;
  Divisor parts;  ///< splits block numbers [group of columns, part]

  MTF_DEVICE void operator()(const Block& block) const {
    const auto [group, part] = parts(block.index());
    const int64_t column = group * kColumns + block.lane() * N;
    const int64_t begin = part * rows_of_part, end = std::min(rows, begin + rows_of_part);
    ParameterSums<A> sums[N];
    if (column < columns) {
      for (int64_t r = begin + block.warp(); r < end; r += kAtOnce * kWarps) add_rows(sums, r, end, column);
    }
    ParameterSums<A>* shared = block.shared<ParameterSums<A>>();  // [warp, column]
    for (int n = 0; n < N; ++n) shared[block.warp() * kColumns + block.lane() * N + n] = sums[n];
    block.sync();
    for (int c = block.thread(); c < kColumns && group * kColumns + c < columns; c += block.threads()) {
      ParameterSums<A> sum = shared[c];
      for (int warp = 1; warp < kWarps; ++warp) sum = sum + shared[warp * kColumns + c];
      const bool has_bias = in.means != nullptr;
      sum.store(partials + part * columns * (has_bias ? 2 : 1), group * kColumns + c, columns, has_bias);
    }
  }

 private:
  /// Adds rows r, r + kWarps, ..., at most kAtOnce of them.
  MTF_DEVICE void add_rows(ParameterSums<A> (&sums)[N], int64_t r, int64_t end, int64_t column) const {
    Pack<T, N> x[kAtOnce], dy[kAtOnce];
    typename NormalizedOperands<T>::Row row[kAtOnce];
    MTF_UNROLL(kAtOnce)
    for (int k = 0; k < kAtOnce; ++k) {
      const int64_t at = r + k * kWarps;
      if (at < end) {
        x[k] = load<N>(in.x + at * columns + column);
        dy[k] = load<N>(in.dy + at * columns + column);
        row[k] = in.row(at);
      } else {
        x[k] = dy[k] = {};
        row[k] = {0, 0};
      }
    }
    MTF_UNROLL(kAtOnce)
    for (int k = 0; k < kAtOnce; ++k) {
      for (int n = 0; n < N; ++n) sums[n].add(widen(x[k][n]), widen(dy[k][n]), row[k]);
    }
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
    ParameterSums<A> whole, some;
    int count = 0;
    for (int i = group.rank(); i < group.count(); i += group.size()) {
      const int64_t r = group.begin() + i;
      const Division row = stride(r);
      const int64_t at = (row.quotient * columns + column) * stride.value() + row.remainder;
      some.add(widen(in.x[at]), widen(in.dy[at]), in.row(r));
      if (++count % 32 == 0) {
        whole = whole + some;
        some = {};
      }
    }
    const auto add = [](const ParameterSums<A>& a, const ParameterSums<A>& b) { return a + b; };
    const ParameterSums<A> sum = group.reduce_adjacent(block, whole + some, ParameterSums<A>(), add);
    const bool has_bias = in.means != nullptr;
    if (group.leads())
      sum.store(partials + group.part() * columns * (has_bias ? 2 : 1), column, columns, has_bias);
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

/// How the columns of contiguous rows are divided: enough blocks for a device, and enough rows for a block.
struct ColumnParts {
  int64_t groups, rows, parts;

  ColumnParts(const Rows& all, int64_t columns_of_group) {
    constexpr int64_t kBlocks = 512, kFewest = 32, kMost = 512, kMostParts = 512;
    groups = (all.length + columns_of_group - 1) / columns_of_group;
    const int64_t wanted = std::max(std::min(all.count * groups / kBlocks, kMost), all.count / kMostParts);
    rows = (wanted / kFewest + 1) * kFewest;
    parts = (all.count + rows - 1) / rows;
  }
};

template <class T, class FirstLaunch>
std::unique_ptr<Kernel> two_launches(Device& device, const Rows& rows, int64_t parts, bool centered,
                                     const FirstLaunch& first) {
  using A = Computed<T>;
  const int64_t sums = rows.length * (centered ? 2 : 1);
  const ThreadGroups groups = interleaved_groups(sums, parts, sums);
  return make_device_kernel(
      device,
      [=](const Launcher& launch, const KernelCall& call) {
        auto* partials = reinterpret_cast<A*>(call.scratch);
        first(launch,
              NormalizedOperands<T>{call.input<T>(0), call.input<T>(1), call.input<A>(2),
                                    centered ? call.input<A>(3) : nullptr},
              partials);
        launch(groups.shape(sizeof(A)),
               AddParts<A>{partials, call.output<A>(0), centered ? call.output<A>(1) : nullptr, rows.length,
                           groups});
      },
      static_cast<size_t>(parts * sums) * sizeof(A));
}

template <class T, int N>
std::unique_ptr<Kernel> contiguous_kernel(Device& device, const Rows& rows, bool centered) {
  using Sums = ColumnSums<T, N>;
  const ColumnParts cut(rows, Sums::kColumns);
  const int64_t blocks = cut.groups * cut.parts;
  return two_launches<T>(
      device, rows, cut.parts, centered,
      [=](const Launcher& launch, const NormalizedOperands<T>& in, Computed<T>* partials) {
        launch({blocks, Sums::kWarps * kWarp, Sums::kSharedBytes},
               Sums{in, partials, rows.count, rows.length, cut.rows, Divisor(cut.parts, blocks)});
      });
}

template <class T>
std::unique_ptr<Kernel> parameter_gradient_kernel(const KernelContext& context, Device& device) {
  const auto& operation = static_cast<const NormalizationParameterGradient&>(context.operation);
  const Rows rows = rows_along(context.inputs[0], operation.dimension);
  const bool centered = operation.centered();
  if (rows.stride == 1) {
    constexpr int N = kPack<T>;
    return rows.length % N == 0 ? contiguous_kernel<T, N>(device, rows, centered)
                                : contiguous_kernel<T, 1>(device, rows, centered);
  }
  const ThreadGroups groups = divided(contiguous_groups(rows.length, rows.count, 1));
  return two_launches<T>(device, rows, groups.parts, centered,
                         [groups, stride = Divisor(rows.stride, rows.count)](
                             const Launcher& launch, const NormalizedOperands<T>& in, Computed<T>* partials) {
                           launch(groups.shape(sizeof(ParameterSums<Computed<T>>)),
                                  ScatteredColumnSums<T>{in, partials, groups, stride});
                         });
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
}  // namespace mtf::cuda
