// The kernel of `broadcast`, which moves elements of any type.

#include <cstring>

#include "engine/backend/broadcast_axes.h"
#include "engine/backend/cpu/elementwise/element_blocks.h"
#include "engine/backend/cpu/registry/kernel_registry.h"

namespace mtf {
namespace {

template <class T>
void copy_run(const T* x, int64_t stride, T* y, int64_t count) {
  if (stride == 1) {
    std::memcpy(y, x, static_cast<size_t>(count) * sizeof(T));
  } else if (stride == 0) {
    std::fill(y, y + count, *x);
  } else {
    for (int64_t i = 0; i < count; ++i) y[i] = x[i * stride];
  }
}

template <class T>
std::unique_ptr<Kernel> broadcast_kernel(const KernelContext& context) {
  const StridedAxes<1> axes = broadcast_axes<1>(context);
  return make_kernel(context.outputs[0].local.size(), kElementsPerTask,
                     [axes](const KernelCall& call, int64_t begin, int64_t end) {
                       T* y = call.output<T>(0) + begin;
                       for_each_run(axes, begin, end, [&](const Offsets<1>& at, int64_t count) {
                         copy_run(call.input<T>(0) + at[0], inner_stride(axes, 0), y, count);
                         y += count;
                       });
                     });
}

const KernelRegistration broadcast_any("broadcast", kAllTypes, [](const KernelContext& context) {
  return with_element(size_of(context.outputs[0].dtype),
                      [&]<class T>(T) { return broadcast_kernel<T>(context); });
});

}  // namespace
}  // namespace mtf
