// Several files in one option: paths and globs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/config/types.h"

namespace mtf {

/// What keeps a path of the configuration from being read (kConfig, where it was written): nothing is there,
/// a directory, or what this process may not read. Nothing: it can be read.
std::optional<Problem> unreadable(const config::Path& path);

/// The files that `paths` mean, in order; a glob (*, ?, [...]) gives its matches sorted by name. Paths that
/// lead to no file that can be read are added to `problems` (kConfig), each where it was written.
std::vector<std::string> find_files(const std::vector<config::Path>& paths, std::vector<Problem>& problems);
/// The same of files that are read more than once, by every process: pipes and devices are problems, too.
std::vector<std::string> find_regular_files(const std::vector<config::Path>& paths,
                                            std::vector<Problem>& problems);

}  // namespace mtf
