// The memory that this process may take: the least of what the machine has left and what each control group
// that the process is in has left (cgroup v1 and v2), and what the process has already.
//
//   const MemoryLimit limit = available_memory();
//   limit.bytes, limit.source;   // 8589934592, "control group /sys/fs/cgroup/user.slice"
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace mtf {

struct MemoryLimit {
  int64_t bytes = 0;
  /// "run.memory_limit", "control group /sys/fs/cgroup/...", "free memory of the machine".
  std::string source;
};

/// `processes`: that share it, this one included, and have as much as it has already. `root`: where /proc and
/// the file systems of the control groups are found. A file that is not there sets no limit.
MemoryLimit available_memory(int processes = 1, const std::filesystem::path& root = "/");

/// The most that this process had resident at once.
int64_t peak_resident_bytes(const std::filesystem::path& root = "/");

}  // namespace mtf
