// The kernel of `transpose`, which moves elements of any type. If the fast axes of input and output differ,
// it works in square tiles, so that each cache line is read and written once.

#include <cstring>

#include "engine/backend/broadcast_axes.h"
#include "engine/backend/cpu/elementwise/element_blocks.h"
#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/base/check.h"
#include "engine/base/dispatch.h"

namespace mtf {
namespace {

constexpr int64_t kTile = 32;

/// y[j * stride_y + i] = x[i * stride_x + j].
template <class T>
MTF_INLINE void transpose_tile(const T* x, int64_t stride_x, T* y, int64_t stride_y, int64_t is, int64_t js) {
  for (int64_t j = 0; j < js; ++j) {
    for (int64_t i = 0; i < is; ++i) y[j * stride_y + i] = x[i * stride_x + j];
  }
}

/// Copies whole runs; for inputs and outputs with the same fast axis.
template <class T>
std::unique_ptr<Kernel> copy_runs(const StridedAxes<2>& axes, int64_t size) {
  return make_kernel(size, kElementsPerTask, [axes](const KernelCall& call, int64_t begin, int64_t end) {
    for_each_run(axes, begin, end, [&](const Offsets<2>& at, int64_t count) {
      std::memcpy(call.output<T>(0) + at[1], call.input<T>(0) + at[0],
                  static_cast<size_t>(count) * sizeof(T));
    });
  });
}

template <class T>
std::unique_ptr<Kernel> transpose_kernel(const KernelContext& context) {
  StridedAxes<2> axes = moved_axes(context);
  if (axes.empty() || axes.back().strides[0] == 1) return copy_runs<T>(axes, context.outputs[0].local.size());
  // Tiles extend over the fast axes of y and x; all other axes are outer loops.
  const StridedAxis<2> along_y = axes.back();
  axes.pop_back();
  const auto fast =
      std::find_if(axes.begin(), axes.end(), [](const auto& axis) { return axis.strides[0] == 1; });
  MTF_CHECK(fast != axes.end(), "transpose of a tensor that is not dense");
  const StridedAxis<2> along_x = *fast;
  axes.erase(fast);
  const int64_t tiles_y = (along_y.size + kTile - 1) / kTile, tiles_x = (along_x.size + kTile - 1) / kTile;
  const int64_t tiles = size_of(axes) * tiles_x * tiles_y;
  return make_kernel(tiles, kElementsPerTask / (kTile * kTile),
                     [=](const KernelCall& call, int64_t begin, int64_t end) {
                       for (int64_t tile = begin; tile < end; ++tile) {
                         const Offsets<2> at = offsets_of(axes, tile / (tiles_x * tiles_y));
                         const int64_t i = tile % tiles_y * kTile, j = tile / tiles_y % tiles_x * kTile;
                         dispatched<transpose_tile<T>>(
                             call.input<T>(0) + at[0] + i * along_y.strides[0] + j, along_y.strides[0],
                             call.output<T>(0) + at[1] + j * along_x.strides[1] + i, along_x.strides[1],
                             std::min(kTile, along_y.size - i), std::min(kTile, along_x.size - j));
                       }
                     });
}

const KernelRegistration transpose_any("transpose", kAllTypes, [](const KernelContext& context) {
  return with_element(size_of(context.outputs[0].dtype),
                      [&]<class T>(T) { return transpose_kernel<T>(context); });
});

}  // namespace
}  // namespace mtf
