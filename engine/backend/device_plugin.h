// The interface of libmtf_cuda.so, the shared object that drives GPUs, and its loader. Programs and shared
// object are built from the same sources by the same compiler.
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
  uint32_t abi = 0;  ///< kDevicePluginAbi at the time of its build
  /// The visible devices. Throws Error: kNoDevice if there is no driver or no device, kSystem for anything else.
  std::vector<DeviceInfo> (*devices)() = nullptr;
  /// The backend of one device. Throws Error (kNoDevice, kSystem; kUsage: a wrong environment variable).
  std::unique_ptr<Backend> (*make_backend)(int device) = nullptr;
  /// The library for collectives between GPUs, such as "NCCL 2.28.9". Throws Error (kSystem) saying what is
  /// missing.
  std::string (*collectives_version)() = nullptr;
  /// A communicator for collectives among the processes of `host`, each of which drives a GPU of its own. All
  /// of them must call it. Backend and host must outlive the communicator.
  std::unique_ptr<Communicator> (*make_communicator)(Backend& backend, Communicator& host,
                                                     const CommunicatorTimeouts& timeouts) = nullptr;
};

/// Must be incremented with every change of an interface between the programs and the shared object.
inline constexpr uint32_t kDevicePluginAbi = 7;
/// The only function that the shared object exports: const DevicePlugin* (*)().
inline constexpr const char* kDevicePluginEntry = "mtf_device_plugin";

/// Loads libmtf_cuda.so once: the file named by MTF_CUDA_PLUGIN, or else the one beside the program or in
/// ../lib. Throws Error (kSystem) saying what is missing.
const DevicePlugin& device_plugin();

}  // namespace mtf
