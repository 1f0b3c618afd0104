#include "trainer/config/cores.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "trainer/config/control_groups.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;

/// One byte for eight cores; empty where the process cannot be asked.
std::vector<unsigned char> affinity_mask(pid_t process) {
  // The kernel refuses a mask that is too short for all cores that the machine may have.
  for (size_t bytes = sizeof(cpu_set_t); bytes <= (1 << 20); bytes *= 2) {
    std::vector<unsigned char> mask(bytes);
    if (sched_getaffinity(process, bytes, reinterpret_cast<cpu_set_t*>(mask.data())) == 0) return mask;
  }
  return {};
}

/// Cores that a group may use on average; nothing: it sets no limit. Version 2 has "QUOTA PERIOD" in one
/// file, QUOTA "max" without a limit; version 1 has a file for each, the quota -1 without a limit.
std::optional<double> quota_of(const fs::path& group) {
  std::string text;
  for (const char* file : {"cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us"})
    for (const std::string& line : lines_of(group / file)) text += line + ' ';
  std::istringstream numbers(text);
  double quota = 0, period = 0;
  if (!(numbers >> quota >> period) || quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

}  // namespace

int cores_of_mask(int processes) {
  const std::vector<unsigned char> mask = affinity_mask(0);
  if (mask.empty()) return 1;
  const int cores = CPU_COUNT_S(mask.size(), reinterpret_cast<const cpu_set_t*>(mask.data()));
  const std::vector<unsigned char> of_parent = affinity_mask(getppid());
  const bool own = !of_parent.empty() && mask != of_parent;
  return std::max(1, cores / (own ? 1 : processes));
}

std::optional<int> cores_of_quota(int processes, const fs::path& root) {
  std::optional<int> least;
  for (const ControlGroups version : {ControlGroups::kVersion1, ControlGroups::kVersion2}) {
    for (const ControlGroup& group : control_groups(version, "cpu", root)) {
      const std::optional<double> quota = quota_of(root / group.path.substr(1));
      if (!quota) continue;
      const int cores = static_cast<int>(std::min(std::ceil(*quota), 1e9));
      const int share = std::max(1, cores / (group.holds_parent ? processes : 1));
      least = std::min(share, least.value_or(share));
    }
  }
  return least;
}

int usable_cores(int processes) {
  const int cores = cores_of_mask(processes);
  return std::min(cores, cores_of_quota(processes).value_or(cores));
}

}  // namespace mtf
