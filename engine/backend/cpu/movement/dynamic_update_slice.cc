// dynamic_update_slice: replaces one entry along a dimension. If it is not done in place, the tensor is
// copied first.
#include "engine/ops/dynamic_update_slice.h"

#include <algorithm>
#include <cstring>

#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/backend/strided.h"

namespace mtf {
namespace {

std::unique_ptr<Kernel> dynamic_update_slice_kernel(const KernelContext& context) {
  const auto& operation = static_cast<const DynamicUpdateSlice&>(context.operation);
  const Shape &local = context.inputs[0].local, &entry = context.inputs[1].local,
              &index = context.inputs[2].local;
  const int axis = *local.find(operation.dimension);
  const std::vector<int64_t> strides = local.strides(), entry_strides = entry.strides(),
                             index_strides = index.strides();
  StridedAxes<3> places;  // strides of x, entry and index
  for (int a = 0; a < local.rank(); ++a) {
    if (a == axis) continue;
    const auto in_index = index.find(local[a].name);
    places.push_back(
        {local[a].size,
         {strides[a], entry_strides[*entry.find(local[a].name)], in_index ? index_strides[*in_index] : 0}});
  }
  const int64_t n = local[axis].size, stride = strides[axis];
  const int64_t bytes = static_cast<int64_t>(size_of(context.inputs[0].dtype));
  int64_t run = 1;  // elements inside the dimension that have the same index
  places = joined(places);
  if (!places.empty() && places.back().strides == Offsets<3>{1, 1, 0}) {
    run = std::min(places.back().size, stride);
    places.back() = {places.back().size / run, {n * stride, run, 0}};
  }
  places = joined(places);
  return make_kernel(size_of(places), std::max<int64_t>(1, kElementsPerTask / (n * run)),
                     [=](const KernelCall& call, int64_t begin, int64_t end) {
                       const bool in_place = call.input<std::byte>(0) == call.output<std::byte>(0);
                       for_each_offset(places, begin, end, [&](const Offsets<3>& at) {
                         std::byte* y = call.output<std::byte>(0) + at[0] * bytes;
                         const auto copy = [&](int64_t i, const std::byte* from) {
                           std::memcpy(y + i * stride * bytes, from, static_cast<size_t>(run * bytes));
                         };
                         if (!in_place) {
                           const std::byte* x = call.input<std::byte>(0) + at[0] * bytes;
                           for (int64_t i = 0; i < n; ++i) copy(i, x + i * stride * bytes);
                         }
                         const int64_t i = call.input<int32_t>(2)[at[2]];
                         if (i >= 0 && i < n) copy(i, call.input<std::byte>(1) + at[1] * bytes);
                       });
                     });
}

const KernelRegistration kernels("dynamic_update_slice", kAllTypes, dynamic_update_slice_kernel);

}  // namespace
}  // namespace mtf
