// The directory of a run: who may write into it, and its config.yaml.
#pragma once

#include <string>

#include "trainer/config.h"

namespace mtf {

/// Reports a directory that holds a run already, or a path that is no directory.
void check_model_dir(const Config& config, Diagnostics& diagnostics);

/// Creates the directory and writes config.yaml, the resolved configuration. Throws Error (kSystem).
void create_model_dir(const Config& config);

/// run.model_dir/`name`.
std::string in_model_dir(const Config& config, const std::string& name);

}  // namespace mtf
