// A GPU as `mtf-train --list-devices` prints it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mtf {

struct DeviceInfo {
  int index = 0;  ///< among those that are visible
  std::string name;
  int64_t memory_bytes = 0;
  std::string pci;           ///< "0000:3b:00.0"
  int major = 0, minor = 0;  ///< compute capability
  int multiprocessors = 0;
  std::vector<bool> peers;  ///< by device: its memory can be reached from here

  /// "sm_90".
  std::string architecture() const { return "sm_" + std::to_string(major) + std::to_string(minor); }
};

}  // namespace mtf
