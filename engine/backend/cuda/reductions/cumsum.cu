// Running sums. If many lie side by side (indices inside the dimension), a thread computes each of them or a
// part of it. Otherwise a warp or a block computes a row. bfloat16 is summed in float32.
#include "engine/backend/cuda/device/device_kernel.h"
#include "engine/backend/cuda/device/element_walk.h"
#include "engine/backend/cuda/device/scan.h"
#include "engine/backend/element.h"
#include "engine/ops/cumsum.h"

namespace mtf::cuda {
namespace {

/// The number of rows or groups of lanes that keeps a device busy without being cut.
constexpr int64_t kManyWarps = 1024;
/// The number of elements that a thread reads before it adds them.
constexpr int kAtOnce = 8;

struct ScanShape {
  int64_t rows = 1, n = 1, inner = 1;  ///< extents before, along and after the dimension
  bool exclusive = false, reverse = false;

  /// The offset of entry i in the order of summation.
  MTF_HOST_DEVICE int64_t offset(int64_t i) const { return (reverse ? n - 1 - i : i) * inner; }
};

/// One warp handles 32 indices after the dimension, for one index before it. Or `parts` warps of a block
/// share the entries, read them twice, and add the sums of the parts before. x may be y.
template <class T>
struct ScanSideBySide {
  const T* x;
  T* y;
  ScanShape shape;
  Divisor groups;  ///< groups of 32 indices for each index before the dimension
  int parts;       ///< 1 or kWarps

  MTF_DEVICE void operator()(const Block& block) const {
    const int64_t group = parts == 1 ? block.index() * kWarps + block.warp() : block.index();
    const Division at = groups(group);
    const int64_t lane = at.remainder * kWarp + block.lane();
    const bool used = at.quotient < shape.rows && lane < shape.inner;
    const int64_t first = at.quotient * shape.n * shape.inner + lane;
    const int part = parts == 1 ? 0 : block.warp();
    const int64_t length = (shape.n + parts - 1) / parts, begin = part * length;
    const int64_t end = begin + length < shape.n ? begin + length : shape.n;
    Computed<T> sum{};
    if (parts > 1) {
      if (used) scan(first, begin, end, sum, [](int64_t, Computed<T>, Computed<T>) {});
      auto* sums = block.shared<Computed<T>>();
      sums[block.thread()] = sum;
      block.sync();
      sum = {};
      for (int before = 0; before < part; ++before) sum += sums[before * kWarp + block.lane()];
    }
    if (!used) return;
    scan(first, begin, end, sum, [&](int64_t offset, Computed<T> before, Computed<T> after) {
      y[first + offset] = narrow<T>(shape.exclusive ? before : after);
    });
  }

 private:
  template <class Visit>
  MTF_DEVICE void scan(int64_t first, int64_t begin, int64_t end, Computed<T>& sum,
                       const Visit& visit) const {
    for (int64_t i = begin; i < end; i += kAtOnce) {
      T values[kAtOnce];
      MTF_UNROLL(kAtOnce)
      for (int k = 0; k < kAtOnce; ++k) {
        if (i + k < end) values[k] = x[first + shape.offset(i + k)];
      }
      MTF_UNROLL(kAtOnce)
      for (int k = 0; k < kAtOnce; ++k) {
        if (i + k < end) {
          const Computed<T> before = sum;
          sum = before + widen(values[k]);
          visit(shape.offset(i + k), before, sum);
        }
      }
    }
  }
};

/// One warp or block handles a row, with some elements of each thread at a time. x may be y.
template <class T>
struct ScanRows {
  static constexpr int kEach = 4;
  const T* x;
  T* y;
  ScanShape shape;
  Divisor inner;
  bool whole_block;

  MTF_DEVICE void operator()(const Block& block) const {
    const int64_t row = whole_block ? block.index() : block.index() * kWarps + block.warp();
    if (row >= shape.rows * shape.inner) return;
    const Division at = inner(row);
    const int64_t first = at.quotient * shape.n * shape.inner + at.remainder;
    const int thread = whole_block ? block.thread() : block.lane();
    const int64_t stretch = kEach * (whole_block ? kThreads : kWarp);
    Computed<T> carried{};
    for (int64_t i = 0; i < shape.n; i += stretch) {
      const int64_t begin = i + thread * kEach;
      Computed<T> sums[kEach];  // running sums within this thread
      Computed<T> sum{};
      MTF_UNROLL(kEach)
      for (int k = 0; k < kEach; ++k) {
        const Computed<T> value =
            begin + k < shape.n ? widen(x[first + shape.offset(begin + k)]) : Computed<T>{};
        sums[k] = shape.exclusive ? sum : sum + value;
        sum += value;
      }
      const Scanned<Computed<T>> scanned =
          whole_block ? scan_block(block, sum, block.shared<Computed<T>>()) : scan_lanes(block, sum);
      const Computed<T> before = carried + scanned.before;
      MTF_UNROLL(kEach)
      for (int k = 0; k < kEach; ++k) {
        if (begin + k < shape.n) y[first + shape.offset(begin + k)] = narrow<T>(before + sums[k]);
      }
      carried += scanned.total;
    }
  }
};

template <class T>
std::unique_ptr<Kernel> cumsum_kernel(const KernelContext& context, Device& device) {
  const auto& operation = static_cast<const Cumsum&>(context.operation);
  const Shape& local = context.inputs[0].local;
  const int axis = *local.find(operation.dimension);
  ScanShape shape{.n = local[axis].size,
                  .inner = local.strides()[axis],
                  .exclusive = operation.options.exclusive,
                  .reverse = operation.options.reverse};
  shape.rows = local.size() / (shape.n * shape.inner);
  if (shape.inner >= kWarp) {
    const int64_t of_row = (shape.inner + kWarp - 1) / kWarp, groups = shape.rows * of_row;
    const int parts = groups >= kManyWarps || shape.n < kThreads ? 1 : kWarps;
    const int64_t blocks = parts == 1 ? (groups + kWarps - 1) / kWarps : groups;
    const Divisor divisor(of_row, blocks * kWarps);
    return make_device_kernel(device, [=](const Launcher& launch, const KernelCall& call) {
      launch(LaunchShape{blocks, kThreads, kThreads * static_cast<int64_t>(sizeof(Computed<T>))},
             ScanSideBySide<T>{call.input<T>(0), call.output<T>(0), shape, divisor, parts});
    });
  }
  const int64_t rows = shape.rows * shape.inner;
  const bool whole_block = rows < kManyWarps && shape.n > ScanRows<T>::kEach * kThreads;
  const int64_t blocks = whole_block ? rows : (rows + kWarps - 1) / kWarps;
  const Divisor inner(shape.inner, blocks * kWarps);
  return make_device_kernel(device, [=](const Launcher& launch, const KernelCall& call) {
    launch(LaunchShape{blocks, kThreads, kWarps * static_cast<int64_t>(sizeof(Computed<T>))},
           ScanRows<T>{call.input<T>(0), call.output<T>(0), shape, inner, whole_block});
  });
}

const DeviceKernelRegistration cumsum_f32("cumsum", {DType::kFloat32}, cumsum_kernel<float>);
const DeviceKernelRegistration cumsum_bf16("cumsum", {DType::kBFloat16}, cumsum_kernel<BFloat16>);
const DeviceKernelRegistration cumsum_f64("cumsum", {DType::kFloat64}, cumsum_kernel<double>);
const DeviceKernelRegistration cumsum_i32("cumsum", {DType::kInt32}, cumsum_kernel<int32_t>);

}  // namespace
}  // namespace mtf::cuda
