// The memory that this process may use: the minimum of the machine's free memory and the remaining memory of
// each of its control groups (cgroup v1 and v2), plus the memory that the process already has.
//
//   const MemoryLimit limit = available_memory();
//   limit.bytes, limit.source;   // 8589934592, "control group /sys/fs/cgroup/user.slice"
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>

namespace mtf {

struct MemoryLimit {
  int64_t bytes = 0;  ///< the largest number where there is none
  /// The origin of the limit: "run.memory_limit", "control group /sys/fs/cgroup/..." or "free memory of the
  /// machine".
  std::string source;

  bool is_known() const { return bytes < std::numeric_limits<int64_t>::max(); }
};

/// Returns this process's share of the memory if `processes` processes, including this one, share it. /proc
/// and the control groups' file systems are looked up under `root`; a missing file sets no limit.
MemoryLimit available_memory(int processes = 1, const std::filesystem::path& root = "/");

/// Returns the largest number of bytes that this process had resident so far.
int64_t peak_resident_bytes(const std::filesystem::path& root = "/");

}  // namespace mtf
