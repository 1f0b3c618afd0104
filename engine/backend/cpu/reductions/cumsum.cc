// Running sums. Lanes (indices inside the dimension) are summed side by side; with a single lane, the sum of
// a row is sequential. bfloat16 is summed in float32.
#include "engine/ops/cumsum.h"

#include <algorithm>

#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/backend/element.h"
#include "engine/base/dispatch.h"

namespace mtf {
namespace {

constexpr int64_t kLanes = 64;

/// `lanes` <= kLanes running sums over n entries that are `stride` apart. x may be y.
struct Scan {
  int64_t n, stride, lanes;
  bool exclusive;
};

template <class T>
MTF_INLINE void scan_lanes(const T* x, T* y, const Scan& scan) {
  Computed<T> sums[kLanes] = {};
  for (int64_t i = 0; i < scan.n; ++i) {
    for (int64_t lane = 0; lane < scan.lanes; ++lane) {
      const Computed<T> after = sums[lane] + widen(x[i * scan.stride + lane]);
      y[i * scan.stride + lane] = narrow<T>(scan.exclusive ? sums[lane] : after);
      sums[lane] = after;
    }
  }
}

template <class T>
std::unique_ptr<Kernel> cumsum_kernel(const KernelContext& context) {
  const auto& operation = static_cast<const Cumsum&>(context.operation);
  const Shape& local = context.inputs[0].local;
  const int axis = *local.find(operation.dimension);
  const int64_t n = local[axis].size, inner = local.strides()[axis], rows = local.size() / (n * inner);
  const int64_t blocks = (inner + kLanes - 1) / kLanes;
  const CumsumOptions options = operation.options;
  return make_kernel(rows * blocks, std::max<int64_t>(1, kElementsPerTask / (n * std::min(inner, kLanes))),
                     [=](const KernelCall& call, int64_t begin, int64_t end) {
                       for (int64_t unit = begin; unit < end; ++unit) {
                         const int64_t lane = unit % blocks * kLanes;
                         const int64_t last = options.reverse ? (n - 1) * inner : 0;
                         const int64_t first = unit / blocks * n * inner + lane + last;
                         dispatched<scan_lanes<T>>(call.input<T>(0) + first, call.output<T>(0) + first,
                                                   {n, options.reverse ? -inner : inner,
                                                    std::min(kLanes, inner - lane), options.exclusive});
                       }
                     });
}

const KernelRegistration f32("cumsum", {DType::kFloat32}, cumsum_kernel<float>);
const KernelRegistration bf16("cumsum", {DType::kBFloat16}, cumsum_kernel<BFloat16>);
const KernelRegistration f64("cumsum", {DType::kFloat64}, cumsum_kernel<double>);
const KernelRegistration i32("cumsum", {DType::kInt32}, cumsum_kernel<int32_t>);

}  // namespace
}  // namespace mtf
