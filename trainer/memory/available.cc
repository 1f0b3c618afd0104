#include "trainer/memory/available.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

namespace mtf {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> lines_of(const fs::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::istringstream stream(text);
  std::vector<std::string> parts;
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

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
  std::string_view type;       ///< of the file system
  std::string_view limit;      ///< bytes, or "max"
  std::string_view usage;      ///< bytes, the page cache included
  std::string_view reclaimed;  ///< in memory.stat: page cache that goes before anything is refused
};
constexpr Version kVersion1{"cgroup", "memory.limit_in_bytes", "memory.usage_in_bytes",
                            "total_inactive_file"};
constexpr Version kVersion2{"cgroup2", "memory.max", "memory.current", "inactive_file"};

/// Bytes that a control group has left; nothing: it sets no limit.
std::optional<int64_t> left_in(const fs::path& group, const Version& version) {
  const std::optional<int64_t> limit = read_number(group / version.limit);
  const std::optional<int64_t> usage = read_number(group / version.usage);
  // Version 1 writes "no limit" as a number near the largest one.
  if (!limit || !usage || *limit >= std::numeric_limits<int64_t>::max() / 2) return std::nullopt;
  const int64_t used = *usage - read_entry(group / "memory.stat", version.reclaimed).value_or(0);
  return std::max<int64_t>(0, *limit - std::max<int64_t>(0, used));
}

/// Where the control groups of a version are mounted, and which group the mount shows as its root.
struct Mount {
  std::string point;
  std::string root;
};

/// A line of mountinfo: "36 35 98:0 /root /point options - type source super-options".
std::optional<Mount> find_mount(const fs::path& root, const Version& version) {
  for (const std::string& line : lines_of(root / "proc/self/mountinfo")) {
    const size_t separator = line.find(" - ");
    if (separator == std::string::npos) continue;
    const std::vector<std::string> left = split(line, ' ');
    const std::vector<std::string> right = split(line.substr(separator + 3), ' ');
    if (left.size() < 5 || right.size() < 3 || right[0] != version.type) continue;
    const std::vector<std::string> controllers = split(right[2], ',');
    if (version.type == kVersion1.type && std::ranges::find(controllers, "memory") == controllers.end())
      continue;
    return Mount{left[4], left[3]};
  }
  return std::nullopt;
}

/// The control group of this process: a line "0::/path" (version 2) or "4:memory,cpu:/path".
std::optional<std::string> find_group(const fs::path& root, const Version& version) {
  for (const std::string& line : lines_of(root / "proc/self/cgroup")) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::vector<std::string> controllers = split(line.substr(first + 1, second - first - 1), ',');
    const bool found = version.type == kVersion1.type
                           ? std::ranges::find(controllers, "memory") != controllers.end()
                           : line.starts_with("0::");
    if (found) return line.substr(second + 1);
  }
  return std::nullopt;
}

/// The part of `path` below `ancestor`, with a slash in front or empty; nothing: it is not below it.
std::optional<std::string> below(const std::string& path, const std::string& ancestor) {
  if (ancestor == "/") return path == "/" ? "" : path;
  if (!path.starts_with(ancestor)) return std::nullopt;
  const std::string rest = path.substr(ancestor.size());
  return rest.empty() || rest[0] == '/' ? std::optional(rest) : std::nullopt;
}

/// Lowers `limit` to what the group of this process and all groups above it have left. In a container the
/// mount shows a part of the tree only; a group outside that part is taken for its top.
void lower_to_groups(const fs::path& root, const Version& version, MemoryLimit& limit) {
  const std::optional<Mount> mount = find_mount(root, version);
  const std::optional<std::string> group = find_group(root, version);
  if (!mount || !group) return;
  std::string path = mount->point + below(*group, mount->root).value_or("");
  while (true) {
    const std::optional<int64_t> left = left_in(root / path.substr(1), version);
    if (left && *left < limit.bytes) limit = {*left, "control group " + path};
    if (path.size() <= mount->point.size()) break;
    path = path.substr(0, path.rfind('/'));
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
