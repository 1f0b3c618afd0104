// The control groups (cgroup v1 and v2) that limit this process, as the file systems that are mounted show
// them.
//
//   for (const ControlGroup& group : control_groups(ControlGroups::kVersion2, "memory"))
//     read(group.path + "/memory.max");
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace mtf {

/// Version 1 has a tree for some controllers each, version 2 one tree for all.
enum class ControlGroups { kVersion1, kVersion2 };

struct ControlGroup {
  std::string path;  ///< its directory: "/sys/fs/cgroup/user.slice"
  /// The parent process is in the group or in one below it: what the group has is shared by what the parent
  /// has started.
  bool holds_parent = false;
};

/// The group of this process and all groups above it that can be seen. In a container the mount shows a part
/// of the tree only; a group outside that part is taken for its top. Empty where the controller (of version
/// 1) is not mounted. `root`: where /proc and the file systems are found.
std::vector<ControlGroup> control_groups(ControlGroups version, std::string_view controller,
                                         const std::filesystem::path& root = "/");

/// Empty for a file that is not there.
std::vector<std::string> lines_of(const std::filesystem::path& path);

}  // namespace mtf
