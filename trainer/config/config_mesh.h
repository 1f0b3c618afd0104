// The mesh of a run, as keys `mesh` and `devices` and the number of processes give it together.
#pragma once

#include "engine/core/mesh.h"

namespace mtf {

struct Config;

/// Sizes that are `auto` are completed. Throws Error (kConfig) when `mesh`, `devices` and the processes are
/// not right or do not fit.
Mesh resolve_mesh(const Config& config);

}  // namespace mtf
