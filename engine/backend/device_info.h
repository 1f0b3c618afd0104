// DeviceInfo describes a GPU as `mtf-train --list-devices` prints it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mtf {

struct DeviceInfo {
  int index = 0;  ///< among the visible devices
  std::string name;
  int64_t memory_bytes = 0;
  std::string pci;           ///< such as "0000:3b:00.0"
  int major = 0, minor = 0;  ///< compute capability
  int multiprocessors = 0;
  std::vector<bool> peers;  ///< by device: true if this device can access its memory

  /// The architecture, such as "sm_90".
  std::string architecture() const { return "sm_" + std::to_string(major) + std::to_string(minor); }
};

}  // namespace mtf
