#include "engine/backend/cuda/device/device_kernel.h"
#include "engine/backend/cuda/device/fusion_kernels.h"
#include "engine/backend/kernel_table.h"

namespace mtf::cuda {
namespace {

KernelTable<DeviceKernelFactory>& table() {
  static KernelTable<DeviceKernelFactory> kernels("CUDA");
  return kernels;
}

}  // namespace

void Launcher::fusion(const LaunchShape& shape, int kernel, std::span<const std::byte> arguments) const {
  if (batch_ == nullptr) {
    device_.fusions()->launch(device_.compute(), shape, guard_, kernel, arguments);
  } else {
    batch_->add_fusion(*device_.fusions(), kernel, shape, arguments);
  }
}

DeviceKernelRegistration::DeviceKernelRegistration(std::string_view operation,
                                                   std::initializer_list<DType> dtypes,
                                                   DeviceKernelFactory factory) {
  table().add(operation, dtypes, factory);
}

int64_t contraction_flops(const KernelContext& context) {
  const auto shapes = [](const std::vector<LocalTensor>& tensors) {
    std::vector<Shape> result;
    for (const LocalTensor& tensor : tensors) result.push_back(tensor.local);
    return result;
  };
  const Cost cost = context.operation.cost(shapes(context.inputs), shapes(context.outputs));
  return static_cast<int64_t>(cost.flops);
}

std::unique_ptr<Kernel> prepare_device_kernel(const KernelContext& context, Device& device) {
  return table().factory(context.operation, "choose another type in `precision`, or `devices: cpu`")(context,
                                                                                                     device);
}

std::vector<std::pair<std::string, DType>> device_kernels() { return table().keys(); }

}  // namespace mtf::cuda
