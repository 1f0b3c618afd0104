#include "trainer/memory/available.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

#include "trainer/config/control_groups.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;

std::optional<int64_t> to_number(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end != text.data() ? std::optional(number) : std::nullopt;
}

/// The first line of a file as a number; nothing for "max" and where there is no such file.
std::optional<int64_t> read_number(const fs::path& path) {
  const std::vector<std::string> lines = lines_of(path);
  return lines.empty() ? std::nullopt : to_number(lines.front());
}

/// The number after `key` in a file of lines "key 123" or "key:   123 kB".
std::optional<int64_t> read_entry(const fs::path& path, std::string_view key) {
  for (const std::string& line : lines_of(path)) {
    std::istringstream words(line);
    std::string name, number, unit;
    words >> name >> number >> unit;
    if (name != key) continue;
    const std::optional<int64_t> value = to_number(number);
    return value && unit == "kB" ? std::optional(*value * 1024) : value;
  }
  return std::nullopt;
}

/// What the two versions of the interface call their files.
struct Version {
  ControlGroups groups;
  std::string_view limit;      ///< bytes, or "max"
  std::string_view usage;      ///< bytes, the page cache included
  std::string_view reclaimed;  ///< in memory.stat: page cache that goes before anything is refused
};
constexpr Version kVersion1{ControlGroups::kVersion1, "memory.limit_in_bytes", "memory.usage_in_bytes",
                            "total_inactive_file"};
constexpr Version kVersion2{ControlGroups::kVersion2, "memory.max", "memory.current", "inactive_file"};

/// Bytes that a control group has left; nothing: it sets no limit.
std::optional<int64_t> left_in(const fs::path& group, const Version& version) {
  const std::optional<int64_t> limit = read_number(group / version.limit);
  const std::optional<int64_t> usage = read_number(group / version.usage);
  // Version 1 writes "no limit" as a number near the largest one.
  if (!limit || !usage || *limit >= std::numeric_limits<int64_t>::max() / 2) return std::nullopt;
  const int64_t used = *usage - read_entry(group / "memory.stat", version.reclaimed).value_or(0);
  return std::max<int64_t>(0, *limit - std::max<int64_t>(0, used));
}

/// Lowers `limit` to what the group of this process and all groups above it have left.
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
  // Not the pages of files: the page cache, which was not counted as used, holds them.
  limit.bytes += read_entry(root / "proc/self/status", "RssAnon:").value_or(0);
  return limit;
}

}  // namespace mtf
