// Sums of y and of x * y in float64 (engine/ops/moments.h). Operands are read in their memory order, as reductions are
// (reduce_kernels.h): if the fast axis is summed, groups of threads sum rows; if it is kept, threads sum columns side by
// side. Long sums are divided into parts, which a second launch adds in order.
#include "engine/backend/cuda/device/device_kernel.h"
#include "engine/backend/cuda/device/thread_groups.h"
#include "engine/backend/element.h"

namespace mtf::cuda {
namespace {

struct PairSum {
  double sum = 0, product = 0;

  template <class Each>
  MTF_DEVICE PairSum each(Each f) const {
    const double new_sum = f(sum);
    return {new_sum, f(product)};
  }
  MTF_DEVICE PairSum operator+(const PairSum& other) const {
    return {sum + other.sum, product + other.product};
  }
  template <class A>
  MTF_DEVICE void add(A x, A y) {
    sum += static_cast<double>(y);
    product += static_cast<double>(x) * static_cast<double>(y);
  }
};

/// Sums the elements of each output, or of N adjacent outputs, or a part of them.
template <class T, int N>
struct SummedPairs {
  static constexpr int kMaxThreads = 512;
  static constexpr int kAtOnce = N > 4 ? 2 : 4;

  const T *x, *y;
  double *sum, *product;
  PairSum* partials;    ///< [part, output]; null if there is one part
  Strided<2> kept;      ///< outputs: strides in x and in the outputs
  Strided<1> summed;    ///< strides in x
  ThreadGroups groups;  ///< a row is N outputs

  MTF_DEVICE void operator()(const Block& block) const {
    const ThreadGroup group(block, groups);
    const Offsets<2> at = kept.at(group.row() * N);
    const int count = group.count(), size = group.size();
    PairSum sums[N];
    for (int i = group.rank(); i < count; i += kAtOnce * size) add(sums, at[0], group, i, count);
    if constexpr (N == 1) {
      sums[0] = group.reduce(block, sums[0], PairSum(), Sum());
    } else {
      group.reduce_interleaved(block, sums, Sum());
    }
    if (!group.leads()) return;
    for (int n = 0; n < N; ++n) {
      if (partials != nullptr) {
        partials[(group.part() * groups.rows + group.row()) * N + n] = sums[n];
      } else {
        const int64_t to = at[1] + n * kept.inner_stride(1);
        sum[to] = sums[n].sum;
        product[to] = sums[n].product;
      }
    }
  }

 private:
  /// Adds the elements i, i + size, ..., at most kAtOnce of them.
  MTF_DEVICE void add(PairSum (&sums)[N], int64_t offset, const ThreadGroup& group, int i, int count) const {
    Pack<T, N> a[kAtOnce], b[kAtOnce];
    MTF_UNROLL(kAtOnce)
    for (int k = 0; k < kAtOnce; ++k) {
      const int element = i + k * group.size();
      if (element >= count) continue;
      const int64_t from = offset + summed.at(group.begin() + element)[0];
      a[k] = load<N>(x + from);
      b[k] = load<N>(y + from);
    }
    MTF_UNROLL(kAtOnce)
    for (int k = 0; k < kAtOnce; ++k) {
      if (i + k * group.size() >= count) continue;
      MTF_UNROLL(N)
      for (int n = 0; n < N; ++n) sums[n].add(widen(a[k][n]), widen(b[k][n]));
    }
  }
};

/// Adds the parts of each output.
struct AddPairParts {
  static constexpr int kMaxThreads = 512;
  const PairSum* partials;
  double *sum, *product;
  Strided<2> kept;  ///< as that of the first launch
  ThreadGroups groups;

  MTF_DEVICE void operator()(const Block& block) const {
    const ThreadGroup group(block, groups);
    PairSum total;
    for (int i = group.rank(); i < group.count(); i += group.size())
      total = total + partials[group.offset() + i * group.stride()];
    total = group.reduce(block, total, PairSum(), Sum());
    if (!group.leads()) return;
    const int64_t to = kept.at(group.row())[1];
    sum[to] = total.sum;
    product[to] = total.product;
  }
};

/// The axes of x in memory order, and whether the fastest one is summed.
struct MomentAxes {
  StridedAxes<2> kept;
  StridedAxes<1> summed;
  bool fast_is_summed = false;

  explicit MomentAxes(const KernelContext& context) {
    const LocalTensor &x = context.inputs[0], &out = context.outputs[0];
    std::vector<int> order;
    for (int a = 0; a < x.global.rank(); ++a) {
      if (x.local[a].size > 1) order.push_back(a);
    }
    const auto stride = [&](int a) { return x.strides[static_cast<size_t>(a)]; };
    std::ranges::stable_sort(order, std::ranges::greater{}, stride);
    for (int a : order) {
      const auto axis = out.global.find(x.global[a].name);
      if (axis) {
        kept.push_back({x.local[a].size, {stride(a), out.strides[static_cast<size_t>(*axis)]}});
      } else {
        summed.push_back({x.local[a].size, {stride(a)}});
      }
      fast_is_summed = !axis;
    }
    kept = joined(kept);
    summed = joined(summed);
  }
};

template <class T, int N>
std::unique_ptr<Kernel> moments_in_packs(const MomentAxes& axes, Device& device) {
  SummedPairs<T, N> prepared{};
  prepared.kept = Strided<2>(axes.kept);
  prepared.summed = Strided<1>(axes.summed);
  const int64_t outputs = prepared.kept.size(), length = prepared.summed.size();
  prepared.groups =
      divided(axes.fast_is_summed ? contiguous_groups(outputs, length, 1)
                                  : interleaved_groups(outputs / N, length, prepared.kept.inner_size() / N));
  const int parts = prepared.groups.parts;
  AddPairParts last{};
  if (parts > 1) {
    last.kept = prepared.kept;
    last.groups = interleaved_groups(outputs, parts, outputs);
  }
  const size_t scratch = parts == 1 ? 0 : static_cast<size_t>(parts * outputs) * sizeof(PairSum);
  return make_device_kernel(
      device,
      [=](const Launcher& launch, const KernelCall& call) {
        SummedPairs<T, N> first = prepared;
        first.x = call.input<T>(0);
        first.y = call.input<T>(1);
        first.sum = call.output<double>(0);
        first.product = call.output<double>(1);
        first.partials = scratch == 0 ? nullptr : reinterpret_cast<PairSum*>(call.scratch);
        launch(first.groups.shape(N * sizeof(PairSum)), first);
        if (scratch == 0) return;
        AddPairParts second = last;
        second.partials = first.partials;
        second.sum = first.sum;
        second.product = first.product;
        launch(second.groups.shape(sizeof(PairSum)), second);
      },
      scratch);
}

template <class T>
std::unique_ptr<Kernel> moments_kernel(const KernelContext& context, Device& device) {
  const MomentAxes axes(context);
  if constexpr (!std::is_same_v<T, double>) {  // float64 is for tests of models: one compiles faster
    // Sums of a pack are in registers, and in the shared memory of up to 512 threads.
    constexpr int N = std::min(kPack<T>, 4);
    const auto is_multiple = [](const auto& axis) { return axis.strides[0] % N == 0; };
    if (!axes.fast_is_summed && Strided<2>(axes.kept).in_packs(0, N) &&
        std::ranges::all_of(axes.summed, is_multiple))
      return moments_in_packs<T, N>(axes, device);
  }
  return moments_in_packs<T, 1>(axes, device);
}

const DeviceKernelRegistration moments_f32("moments", {DType::kFloat32}, moments_kernel<float>);
const DeviceKernelRegistration moments_bf16("moments", {DType::kBFloat16}, moments_kernel<BFloat16>);
const DeviceKernelRegistration moments_f64("moments", {DType::kFloat64}, moments_kernel<double>);

}  // namespace
}  // namespace mtf::cuda
