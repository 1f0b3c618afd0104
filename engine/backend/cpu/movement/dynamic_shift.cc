// dynamic_shift: a shift by an offset that varies over other dimensions. Runs of elements with the same
// offset are copied together.
#include <algorithm>
#include <cstring>

#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/backend/strided.h"
#include "engine/ops/shift.h"

namespace mtf {
namespace {

std::unique_ptr<Kernel> dynamic_shift_kernel(const KernelContext& context) {
  const auto& operation = static_cast<const DynamicShift&>(context.operation);
  const Shape &local = context.inputs[0].local, &offset = context.inputs[1].local;
  const int axis = *local.find(operation.dimension);
  const std::vector<int64_t> strides = local.strides(), offset_strides = offset.strides();
  StridedAxes<2> places;  // strides of x and offset
  for (int a = 0; a < local.rank(); ++a) {
    const auto in_offset = offset.find(local[a].name);
    if (a != axis)
      places.push_back({local[a].size, {strides[a], in_offset ? offset_strides[*in_offset] : 0}});
  }
  const int64_t n = local[axis].size, stride = strides[axis];
  const int64_t bytes = static_cast<int64_t>(size_of(context.inputs[0].dtype));
  int64_t run = 1;  // elements inside the dimension that have the same offset
  places = joined(places);
  if (!places.empty() && places.back().strides == Offsets<2>{1, 0}) {
    run = std::min(places.back().size, stride);
    places.back() = {places.back().size / run, {n * stride, 0}};
  }
  places = joined(places);
  const bool wrap = operation.wrap, backward = operation.backward;
  return make_kernel(size_of(places), std::max<int64_t>(1, kElementsPerTask / (n * run)),
                     [=](const KernelCall& call, int64_t begin, int64_t end) {
                       for_each_offset(places, begin, end, [&](const Offsets<2>& at) {
                         const int64_t given = call.input<int32_t>(1)[at[1]];
                         const int64_t shift = backward ? -given : given;
                         const std::byte* x = call.input<std::byte>(0) + at[0] * bytes;
                         std::byte* y = call.output<std::byte>(0) + at[0] * bytes;
                         for (int64_t i = 0; i < n; ++i) {
                           int64_t from = i - shift;
                           if (wrap) from = ((from % n) + n) % n;
                           std::byte* to = y + i * stride * bytes;
                           if (from >= 0 && from < n) {
                             std::memcpy(to, x + from * stride * bytes, static_cast<size_t>(run * bytes));
                           } else {
                             std::memset(to, 0, static_cast<size_t>(run * bytes));
                           }
                         }
                       });
                     });
}

const KernelRegistration kernels("dynamic_shift", kAllTypes, dynamic_shift_kernel);

}  // namespace
}  // namespace mtf
