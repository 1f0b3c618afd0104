// Kernels of reduce_first and its gradient, which copy the entries with index 0; some positions do not hold
// them.
#include <array>

#include "engine/backend/cuda/movement/copy_blocks.h"
#include "engine/ops/reduce.h"

namespace mtf::cuda {
namespace {

/// The larger side, in bytes, as rows, one for each index before the dimension.
struct Extent {
  int axis;
  int64_t rows, row, inner;

  Extent(const LocalTensor& whole, std::string_view dimension)
      : axis(*whole.local.find(dimension)),
        rows(1),
        row(entry_bytes(whole, axis) * whole.local[axis].size),
        inner(entry_bytes(whole, axis)) {
    rows = bytes_of(whole) / row;
  }
};

std::unique_ptr<Kernel> reduce_first_kernel(const KernelContext& context, Device& device) {
  const auto& operation = static_cast<const ReduceFirst&>(context.operation);
  const Extent x(context.inputs[0], operation.dimension.name);
  return make_device_kernel(device, [x](const Launcher& launch, const KernelCall& call) {
    const bool first = call.inputs[0].begin[x.axis] == 0;
    const std::array copies{BlockCopy{.from = first ? call.input<std::byte>(0) : nullptr,
                                      .to = call.output<std::byte>(0),
                                      .rows = x.rows,
                                      .length = x.inner,
                                      .from_row = x.row,
                                      .to_row = x.inner}};
    copy_blocks(launch, copies);
  });
}

std::unique_ptr<Kernel> reduce_first_gradient_kernel(const KernelContext& context, Device& device) {
  const auto& operation = static_cast<const ReduceFirstGradient&>(context.operation);
  const Extent dx(context.outputs[0], operation.dimension.name);
  return make_device_kernel(device, [dx](const Launcher& launch, const KernelCall& call) {
    const bool first = call.outputs[0].begin[dx.axis] == 0;
    const std::array copies{BlockCopy{.from = first ? call.input<std::byte>(0) : nullptr,
                                      .to = call.output<std::byte>(0),
                                      .rows = dx.rows,
                                      .length = dx.inner,
                                      .from_row = dx.inner,
                                      .to_row = dx.row},
                            BlockCopy{.to = call.output<std::byte>(0) + dx.inner,
                                      .rows = dx.rows,
                                      .length = dx.row - dx.inner,
                                      .to_row = dx.row}};
    copy_blocks(launch, copies);
  });
}

const DeviceKernelRegistration reduce_first_kernels[] = {
    {"reduce_first", kNumberTypes, reduce_first_kernel},
    {"reduce_first_gradient", kFloatingTypes, reduce_first_gradient_kernel},
};

}  // namespace
}  // namespace mtf::cuda
