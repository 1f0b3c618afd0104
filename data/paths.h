// Resolves the paths and globs of a configuration option to files.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/config/types.h"

namespace mtf {

/// Returns the reason why a path of the configuration cannot be read (kConfig, at the path's mark): it does
/// not exist, is a directory, or this process lacks the permission. Returns nullopt if it can be read.
std::optional<Problem> unreadable(const config::Path& path);

/// Returns the files that `paths` name, in order; a glob (*, ?, [...]) is replaced by its matches, sorted by
/// name. For each path without a readable file a problem (kConfig, at the path's mark) is added to
/// `problems`.
std::vector<std::string> find_files(const std::vector<config::Path>& paths, std::vector<Problem>& problems);
/// Like find_files(), for files that every process reads, and more than once: pipes and devices are added to
/// `problems`, too.
std::vector<std::string> find_regular_files(const std::vector<config::Path>& paths,
                                            std::vector<Problem>& problems);

}  // namespace mtf
