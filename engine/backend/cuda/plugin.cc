// The interface that the shared object exports.
#include "engine/backend/cuda/collectives/device_collectives.h"
#include "engine/backend/cuda/nccl_communicator.h"
#include "engine/backend/device_plugin.h"

namespace mtf::cuda {
namespace {

std::unique_ptr<Backend> make_backend(int device) {
  return std::make_unique<CudaBackend>(open_device(device));
}

/// `backend` must come from make_backend().
std::unique_ptr<Communicator> make_communicator(Backend& backend, Communicator& host,
                                                const CommunicatorTimeouts& timeouts) {
  return std::make_unique<NcclCommunicator>(static_cast<CudaBackend&>(backend), host, timeouts);
}

constexpr DevicePlugin kPlugin{kDevicePluginAbi, visible_devices, make_backend, collectives_version,
                               make_communicator};

}  // namespace
}  // namespace mtf::cuda

extern "C" [[gnu::visibility("default")]] const mtf::DevicePlugin* mtf_device_plugin() {
  return &mtf::cuda::kPlugin;
}
