// Hints for configurations that name a mesh dimension which does not exist.
#pragma once

#include <optional>
#include <string>

#include "engine/core/mesh.h"

namespace mtf {

/// The dimension of the mesh whose name is nearly `name`; nothing if there is none.
std::optional<std::string> nearest_mesh_dimension(const Mesh& mesh, const std::string& name);
/// A hint for a Problem with `name`, which is no dimension of the mesh.
std::string advise_mesh_dimension(const Mesh& mesh, const std::string& name);

}  // namespace mtf
