// Several files in one option: paths and globs.
#pragma once

#include <string>
#include <vector>

#include "engine/config/types.h"

namespace mtf {

/// The files that `paths` mean, in order; a glob (*, ?, [...]) gives its matches sorted by name. Paths that
/// lead to no file are added to `problems` (kData), each where it was written.
std::vector<std::string> find_files(const std::vector<config::Path>& paths, std::vector<Problem>& problems);

}  // namespace mtf
