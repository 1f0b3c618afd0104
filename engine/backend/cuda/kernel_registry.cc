#include <fmt/format.h>

#include <map>

#include "engine/backend/cuda/device_kernel.h"
#include "engine/core/check.h"

namespace mtf::cuda {
namespace {

using Key = std::pair<std::string, DType>;

/// Filled by the registration objects when the shared object is loaded, only read afterwards.
std::map<Key, DeviceKernelFactory>& registry() {
  static std::map<Key, DeviceKernelFactory> kernels;
  return kernels;
}

}  // namespace

DeviceKernelRegistration::DeviceKernelRegistration(std::string_view operation, std::initializer_list<DType> dtypes,
                                                   DeviceKernelFactory factory) {
  for (DType dtype : dtypes) {
    const bool added = registry().emplace(Key(operation, dtype), factory).second;
    MTF_CHECK(added, "two CUDA kernels for {} {}", operation, short_name(dtype));
  }
}

std::unique_ptr<Kernel> prepare_device_kernel(const KernelContext& context, Device& device) {
  const Operation& operation = context.operation;
  const auto found = registry().find(Key(operation.name(), operation.kernel_dtype()));
  if (found == registry().end()) {
    throw Error(ErrorKind::kConfig, operation.provenance().mark,
                fmt::format("operation {} has no CUDA kernel for {}", operation.name(),
                            name_of(operation.kernel_dtype())),
                "choose another type in `precision`, or `devices: cpu`");
  }
  return found->second(context, device);
}

std::vector<std::pair<std::string, DType>> device_kernels() {
  std::vector<std::pair<std::string, DType>> result;
  for (const auto& [key, factory] : registry()) result.push_back(key);
  return result;
}

}  // namespace mtf::cuda
