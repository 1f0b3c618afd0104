// What the shared object shows.
#include "engine/backend/cuda/cuda_backend.h"
#include "engine/backend/device_plugin.h"

namespace mtf::cuda {
namespace {

std::unique_ptr<Backend> make_backend(int device) {
  return std::make_unique<CudaBackend>(open_device(device));
}

constexpr DevicePlugin kPlugin{kDevicePluginAbi, visible_devices, make_backend};

}  // namespace
}  // namespace mtf::cuda

extern "C" [[gnu::visibility("default")]] const mtf::DevicePlugin* mtf_device_plugin() {
  return &mtf::cuda::kPlugin;
}
