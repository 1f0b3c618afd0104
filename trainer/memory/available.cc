#include "trainer/memory/available.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

#include "engine/base/parse_number.h"
#include "trainer/config/control_groups.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;

/// Returns the first line of a file as a number; nullopt for "max" or if there is no such file.
std::optional<int64_t> read_number(const fs::path& path) {
  const std::vector<std::string> lines = lines_of(path);
  return lines.empty() ? std::nullopt : parse_number<int64_t>(lines.front());
}

/// Returns the number after `key`, in bytes, in a file with lines "key 123" or "key:   123 kB".
std::optional<int64_t> read_entry(const fs::path& path, std::string_view key) {
  for (const std::string& line : lines_of(path)) {
    std::istringstream words(line);
    std::string name, number, unit;
    words >> name >> number >> unit;
    if (name != key) continue;
    const std::optional<int64_t> value = parse_number<int64_t>(number);
    return value && unit == "kB" ? std::optional(*value * 1024) : value;
  }
  return std::nullopt;
}

/// The file names in one version of the control groups' interface.
struct Version {
  ControlGroups groups;
  std::string_view limit;  ///< file with the limit: bytes, or "max"
  std::string_view usage;  ///< file with the used bytes, including the page cache
  /// Key in memory.stat of the page cache that is reclaimed before an allocation fails.
  std::string_view reclaimed;
};
constexpr Version kVersion1{ControlGroups::kVersion1, "memory.limit_in_bytes", "memory.usage_in_bytes",
                            "total_inactive_file"};
constexpr Version kVersion2{ControlGroups::kVersion2, "memory.max", "memory.current", "inactive_file"};

/// Returns the bytes that a control group has left; nullopt if it sets no limit.
std::optional<int64_t> left_in(const fs::path& group, const Version& version) {
  const std::optional<int64_t> limit = read_number(group / version.limit);
  const std::optional<int64_t> usage = read_number(group / version.usage);
  // Version 1 represents "no limit" by a number near the largest int64.
  if (!limit || !usage || *limit >= std::numeric_limits<int64_t>::max() / 2) return std::nullopt;
  const int64_t used = *usage - read_entry(group / "memory.stat", version.reclaimed).value_or(0);
  return std::max<int64_t>(0, *limit - std::max<int64_t>(0, used));
}

/// Lowers `limit` to the remaining memory of this process's group and of all groups above it.
void lower_to_groups(const fs::path& root, const Version& version, MemoryLimit& limit) {
  for (const ControlGroup& group : control_groups(version.groups, "memory", root)) {
    const std::optional<int64_t> left = left_in(root / group.path.substr(1), version);
    if (left && *left < limit.bytes) limit = {*left, "control group " + group.path};
  }
}

}  // namespace

int64_t peak_resident_bytes(const fs::path& root) {
  return read_entry(root / "proc/self/status", "VmHWM:").value_or(0);
}

MemoryLimit available_memory(int processes, const fs::path& root) {
  MemoryLimit limit{read_entry(root / "proc/meminfo", "MemAvailable:").value_or(int64_t{1} << 62),
                    "free memory of the machine"};
  lower_to_groups(root, kVersion2, limit);
  lower_to_groups(root, kVersion1, limit);
  limit.bytes /= processes;
  if (processes > 1) limit.source += fmt::format(", shared by {} processes", processes);
  // File-backed pages are not added: they are in the page cache, which was not counted as used.
  limit.bytes += read_entry(root / "proc/self/status", "RssAnon:").value_or(0);
  return limit;
}

}  // namespace mtf
