#include "engine/spmd/partition/mesh_advice.h"

#include <fmt/format.h>

#include <vector>

#include "engine/base/join_words.h"
#include "engine/base/nearest.h"

namespace mtf {

std::optional<std::string> nearest_mesh_dimension(const Mesh& mesh, const std::string& name) {
  return nearest(name, mesh.shape().names());
}

std::string advise_mesh_dimension(const Mesh& mesh, const std::string& name) {
  if (mesh.rank() == 0) return "there is no `mesh`: add one, for example {" + name + ": 2}";
  if (const std::optional<std::string> close = nearest_mesh_dimension(mesh, name))
    return fmt::format("did you mean `{}`?", *close);
  std::vector<std::string> quoted;
  for (const std::string& known : mesh.shape().names()) quoted.push_back("`" + known + "`");
  return "the mesh has " + join_words(quoted, " and ");
}

}  // namespace mtf
