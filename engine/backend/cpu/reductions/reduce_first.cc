// Kernels of reduce_first and its gradient, which move elements of any type. Only the positions that hold
// index 0 of the dimension contribute.
#include <cstring>

#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/ops/reduce.h"

namespace mtf {
namespace {

/// The shape of `whole`, in bytes, as [outer, size, inner] around the dimension.
struct Extent {
  int axis;
  int64_t outer, size, inner;
};

Extent extent_of(const LocalTensor& whole, const Dimension& dimension) {
  const int axis = *whole.local.find(dimension.name);
  const int64_t bytes = bytes_of(whole.local, whole.dtype);
  const int64_t inner = whole.local.strides()[axis] * static_cast<int64_t>(size_of(whole.dtype));
  const int64_t size = whole.local[axis].size;
  return {axis, bytes / (inner * size), size, inner};
}

std::unique_ptr<Kernel> reduce_first_kernel(const KernelContext& context) {
  const Extent x = extent_of(context.inputs[0], static_cast<const ReduceFirst&>(context.operation).dimension);
  return make_kernel(x.outer, std::max<int64_t>(1, 65536 / x.inner),
                     [x](const KernelCall& call, int64_t begin, int64_t end) {
                       const bool first = call.inputs[0].begin[x.axis] == 0;
                       for (int64_t o = begin; o < end; ++o) {
                         std::byte* y = call.output<std::byte>(0) + o * x.inner;
                         if (first) {
                           std::memcpy(y, call.input<std::byte>(0) + o * x.size * x.inner, x.inner);
                         } else {
                           std::memset(y, 0, x.inner);
                         }
                       }
                     });
}

std::unique_ptr<Kernel> reduce_first_gradient_kernel(const KernelContext& context) {
  const Extent x =
      extent_of(context.outputs[0], static_cast<const ReduceFirstGradient&>(context.operation).dimension);
  return make_kernel(x.outer, std::max<int64_t>(1, 65536 / (x.size * x.inner)),
                     [x](const KernelCall& call, int64_t begin, int64_t end) {
                       const bool first = call.outputs[0].begin[x.axis] == 0;
                       for (int64_t o = begin; o < end; ++o) {
                         std::byte* dx = call.output<std::byte>(0) + o * x.size * x.inner;
                         std::memset(dx, 0, x.size * x.inner);
                         if (first) std::memcpy(dx, call.input<std::byte>(0) + o * x.inner, x.inner);
                       }
                     });
}

const KernelRegistration registrations[] = {
    {"reduce_first", kNumberTypes, reduce_first_kernel},
    {"reduce_first_gradient", kFloatingTypes, reduce_first_gradient_kernel},
};

}  // namespace
}  // namespace mtf
