// The shared object that drives GPUs, libmtf_cuda.so: what it shows, and how the programs load it. Both sides
// are built from the same sources by the same compiler.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/backend/device_info.h"
#include "engine/comm/communicator.h"

namespace mtf {

struct CommunicatorTimeouts {
  std::chrono::milliseconds connect{300'000};
  std::chrono::milliseconds collective{600'000};
};

struct DevicePlugin {
  uint32_t abi = 0;  ///< kDevicePluginAbi of its build
  /// The visible devices. Throws Error (kSystem) that says what is missing: driver, library, device.
  std::vector<DeviceInfo> (*devices)() = nullptr;
  /// Of one device. Throws Error (kSystem).
  std::unique_ptr<Backend> (*make_backend)(int device) = nullptr;
  /// What carries collectives from GPU to GPU: "NCCL 2.28.9". Throws Error (kSystem) that says what is
  /// missing.
  std::string (*collectives_version)() = nullptr;
  /// Collectives among the processes of `host`, which all call it; each drives a GPU of its own. Backend and
  /// host outlive the communicator.
  std::unique_ptr<Communicator> (*make_communicator)(Backend& backend, Communicator& host,
                                                     const CommunicatorTimeouts& timeouts) = nullptr;
};

/// Grows with every change of an interface between the programs and the shared object.
inline constexpr uint32_t kDevicePluginAbi = 4;
/// The one function that the shared object shows: const DevicePlugin* (*)().
inline constexpr const char* kDevicePluginEntry = "mtf_device_plugin";

/// Loads libmtf_cuda.so once: the file that MTF_CUDA_PLUGIN names, else beside the program or in ../lib.
/// Throws Error (kSystem) that says what is missing.
const DevicePlugin& device_plugin();

}  // namespace mtf
