// The kernel of `where`, which moves elements of any type: elements that are not selected never enter a
// computation.
#include "engine/backend/broadcast_axes.h"
#include "engine/backend/cpu/elementwise/element_blocks.h"
#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/base/dispatch.h"

namespace mtf {
namespace {

template <class T>
MTF_INLINE void select(const bool* condition, const T* a, const T* b, T* y, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const T from_a = a[i], from_b = b[i];
    y[i] = condition[i] ? from_a : from_b;
  }
}

template <class T>
std::unique_ptr<Kernel> where_kernel(const KernelContext& context) {
  const StridedAxes<3> axes = broadcast_axes<3>(context);
  return make_kernel(context.outputs[0].local.size(), kElementsPerTask,
                     [axes](const KernelCall& call, int64_t begin, int64_t end) {
                       T* y = call.output<T>(0) + begin;
                       for_each_run(axes, begin, end, [&](const Offsets<3>& at, int64_t count) {
                         BlockReader<bool> condition(call.input<bool>(0) + at[0], inner_stride(axes, 0));
                         BlockReader<T> a(call.input<T>(1) + at[1], inner_stride(axes, 1));
                         BlockReader<T> b(call.input<T>(2) + at[2], inner_stride(axes, 2));
                         for_each_block(count, [&](int64_t i, int64_t n) {
                           dispatched<select<T>>(condition.read(i, n), a.read(i, n), b.read(i, n), y + i, n);
                         });
                         y += count;
                       });
                     });
}

const KernelRegistration where_any("where", {DType::kBool}, [](const KernelContext& context) {
  return with_element(size_of(context.outputs[0].dtype),
                      [&]<class T>(T) { return where_kernel<T>(context); });
});

}  // namespace
}  // namespace mtf
