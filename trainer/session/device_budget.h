// The memory of its GPU that a process may plan with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/backend/device_memory_state.h"

namespace mtf {

struct Session;

struct DeviceBudget {
  DeviceMemoryState state;  ///< before the run allocates memory; `free` is that of all processes together
  int processes = 1;        ///< processes of the run that share the GPU
  std::string gpu;          ///< "GPU 0 (NVIDIA H200)"
};

/// Asks for the memory of this process's GPU; nothing without a GPU. The call is collective: when it asks, every
/// process has opened its GPU.
std::optional<DeviceBudget> device_budget(const Session& session);

}  // namespace mtf
