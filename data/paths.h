// Several files in one option: paths and globs.
#pragma once

#include <string>
#include <vector>

#include "engine/config/types.h"

namespace mtf {

/// The files that `paths` mean, in order; a glob (*, ?, [...]) gives its matches sorted by name. A path
/// without wildcards stands for itself, whether the file exists or not. Throws Error (kData) when a glob
/// matches nothing.
std::vector<std::string> expand_globs(const std::vector<config::Path>& paths);

}  // namespace mtf
