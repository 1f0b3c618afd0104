#include "trainer/session/device_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "engine/base/process.h"
#include "trainer/session/session.h"

namespace mtf {
namespace {

/// Returns the number of processes of the run whose GPU is this process's.
int processes_on_gpu(const Session& session) {
  const Config& config = session.config;
  const DeviceInfo* device = session.backend->device_info();
  if (session.processes->size() > 1) {
    const std::string own = device == nullptr ? "" : machine_id() + " " + device->pci;
    const std::vector<std::string> all = session.processes->exchange("the names of its devices", own);
    return static_cast<int>(std::ranges::count(all, own));
  }
  // Processes that are planned, or do not meet: `cuda:0` is the GPU of all of this machine.
  const bool share = config.devices.size() == 1 && config.devices[0].starts_with("cuda:");
  return share ? config.launch.local_size : 1;
}

}  // namespace

std::optional<DeviceBudget> device_budget(const Session& session) {
  const int processes = processes_on_gpu(session);
  const std::optional<DeviceMemoryState> state = session.backend->memory_state();
  if (!state) return std::nullopt;
  const DeviceInfo& device = *session.backend->device_info();
  return DeviceBudget{*state, processes, fmt::format("GPU {} ({})", device.index, device.name)};
}

}  // namespace mtf
