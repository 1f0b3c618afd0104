// Kernels of one_hot, range and gather.
#include "engine/ops/indexing.h"

#include <algorithm>
#include <cstring>

#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/backend/element.h"
#include "engine/backend/strided.h"

namespace mtf {
namespace {

/// Fills the rows of the dimension with `off`, and sets `on` where the id falls into this position's slice.
template <class T>
std::unique_ptr<Kernel> one_hot_into(const KernelContext& context) {
  const auto& operation = static_cast<const OneHot&>(context.operation);
  const Shape& local = context.outputs[0].local;
  const int axis = local.rank() - 1;
  const int64_t n = local[axis].size;
  const T on = narrow<T>(operation.on), off = narrow<T>(operation.off);
  return make_kernel(context.inputs[0].local.size(), std::max<int64_t>(1, kElementsPerTask / n),
                     [=](const KernelCall& call, int64_t begin, int64_t end) {
                       const int64_t first = call.outputs[0].begin[axis];
                       std::fill(call.output<T>(0) + begin * n, call.output<T>(0) + end * n, off);
                       for (int64_t row = begin; row < end; ++row) {
                         const int64_t id = call.input<int32_t>(0)[row] - first;
                         if (id >= 0 && id < n) call.output<T>(0)[row * n + id] = on;
                       }
                     });
}

std::unique_ptr<Kernel> one_hot_kernel(const KernelContext& context) {
  switch (context.outputs[0].dtype) {
    case DType::kFloat32:
      return one_hot_into<float>(context);
    case DType::kBFloat16:
      return one_hot_into<BFloat16>(context);
    case DType::kFloat64:
      return one_hot_into<double>(context);
    case DType::kInt32:
      return one_hot_into<int32_t>(context);
    case DType::kInt64:
      return one_hot_into<int64_t>(context);
    case DType::kBool:
      return one_hot_into<bool>(context);
    case DType::kInt8:
    case DType::kUInt8:
      break;
  }
  return nullptr;
}

template <class T>
std::unique_ptr<Kernel> range_kernel(const KernelContext& context) {
  return make_kernel(context.outputs[0].local.size(), kElementsPerTask,
                     [](const KernelCall& call, int64_t begin, int64_t end) {
                       const int64_t first = call.outputs[0].begin[0];
                       for (int64_t i = begin; i < end; ++i) call.output<T>(0)[i] = narrow<T>(first + i);
                     });
}

/// The stride of the dimension called `name` in `tensor`; 0 if it has none.
int64_t stride_of(const LocalTensor& tensor, const std::string& name) {
  const auto axis = tensor.local.find(name);
  return axis ? tensor.local.strides()[*axis] : 0;
}

/// The output as rows of `run` elements that are contiguous in the table.
struct GatherRows {
  StridedAxes<2> axes;  ///< axes of the rows; strides of table and ids
  int64_t run = 1;

  GatherRows(const Shape& output, const LocalTensor& table, const LocalTensor& ids) {
    for (const Dimension& d : output)
      axes.push_back({d.size, {stride_of(table, d.name), stride_of(ids, d.name)}});
    axes = joined(axes);
    if (!axes.empty() && axes.back().strides == Offsets<2>{1, 0}) {
      run = axes.back().size;
      axes.pop_back();
    }
  }
};

/// Copies the row that the id selects, or zeros if this position's slice of the table does not have it.
std::unique_ptr<Kernel> gather_kernel(const KernelContext& context) {
  const auto& operation = static_cast<const Gather&>(context.operation);
  const LocalTensor& table = context.inputs[0];
  const int axis = *table.local.find(operation.dimension);
  const int64_t n = table.local[axis].size, stride = table.local.strides()[axis];
  const int64_t bytes = static_cast<int64_t>(size_of(table.dtype));
  const GatherRows rows(context.outputs[0].local, table, context.inputs[1]);
  return make_kernel(size_of(rows.axes), std::max<int64_t>(1, kElementsPerTask / rows.run),
                     [=](const KernelCall& call, int64_t begin, int64_t end) {
                       const int64_t first = call.inputs[0].begin[axis];
                       const size_t length = static_cast<size_t>(rows.run * bytes);
                       std::byte* y = call.output<std::byte>(0) + begin * rows.run * bytes;
                       for_each_offset(rows.axes, begin, end, [&](const Offsets<2>& at) {
                         const int64_t id = call.input<int32_t>(1)[at[1]] - first;
                         if (id >= 0 && id < n) {
                           std::memcpy(y, call.input<std::byte>(0) + (at[0] + id * stride) * bytes, length);
                         } else {
                           std::memset(y, 0, length);
                         }
                         y += length;
                       });
                     });
}

const KernelRegistration one_hot_kernels("one_hot", {DType::kInt32}, one_hot_kernel);
const KernelRegistration range_f32("range", {DType::kFloat32}, range_kernel<float>);
const KernelRegistration range_bf16("range", {DType::kBFloat16}, range_kernel<BFloat16>);
const KernelRegistration range_f64("range", {DType::kFloat64}, range_kernel<double>);
const KernelRegistration range_i32("range", {DType::kInt32}, range_kernel<int32_t>);
const KernelRegistration range_i64("range", {DType::kInt64}, range_kernel<int64_t>);
const KernelRegistration gather_kernels("gather", kNumberTypes, gather_kernel);

}  // namespace
}  // namespace mtf
