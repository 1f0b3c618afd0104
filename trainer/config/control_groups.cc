#include "trainer/config/control_groups.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>

namespace mtf {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> split(const std::string& text, char separator) {
  std::istringstream stream(text);
  std::vector<std::string> parts;
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

bool has(const std::string& list, std::string_view controller) {
  const std::vector<std::string> controllers = split(list, ',');
  return std::ranges::find(controllers, controller) != controllers.end();
}

/// Where the control groups are mounted, and which group the mount shows as its root.
struct Mount {
  std::string point;
  std::string root;
};

/// A line of mountinfo: "36 35 98:0 /root /point options - type source super-options".
std::optional<Mount> find_mount(const fs::path& root, ControlGroups version, std::string_view controller) {
  for (const std::string& line : lines_of(root / "proc/self/mountinfo")) {
    const size_t separator = line.find(" - ");
    if (separator == std::string::npos) continue;
    const std::vector<std::string> left = split(line, ' ');
    const std::vector<std::string> right = split(line.substr(separator + 3), ' ');
    if (left.size() < 5 || right.size() < 3) continue;
    const bool found = version == ControlGroups::kVersion1 ? right[0] == "cgroup" && has(right[2], controller)
                                                           : right[0] == "cgroup2";
    if (found) return Mount{left[4], left[3]};
  }
  return std::nullopt;
}

/// The control group of a process: a line "0::/path" (version 2) or "4:memory,cpu:/path".
std::optional<std::string> find_group(const fs::path& root, const std::string& process, ControlGroups version,
                                      std::string_view controller) {
  for (const std::string& line : lines_of(root / "proc" / process / "cgroup")) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const bool found = version == ControlGroups::kVersion1
                           ? has(line.substr(first + 1, second - first - 1), controller)
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

}  // namespace

std::vector<std::string> lines_of(const fs::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

std::vector<ControlGroup> control_groups(ControlGroups version, std::string_view controller,
                                         const fs::path& root) {
  const std::optional<Mount> mount = find_mount(root, version, controller);
  const std::optional<std::string> group = find_group(root, "self", version, controller);
  if (!mount || !group) return {};
  const std::optional<std::string> of_parent =
      find_group(root, std::to_string(getppid()), version, controller);
  const std::optional<std::string> parent = of_parent ? below(*of_parent, mount->root) : std::nullopt;
  std::string rest = below(*group, mount->root).value_or("");
  std::vector<ControlGroup> groups;
  while (true) {
    const bool holds_parent = parent && (rest.empty() || below(*parent, rest));
    groups.push_back({mount->point + rest, holds_parent});
    if (rest.empty()) return groups;
    rest.resize(rest.rfind('/'));
  }
}

}  // namespace mtf
