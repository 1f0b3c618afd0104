// Which keys differ between the configurations of two runs.
//
//   const std::string one = "runs/one/config.yaml", mesh = "runs/mesh/config.yaml";
//   for (const ConfigDifference& difference : compare_configs(one, mesh)) ...
//
// Trees are compared, not typed options: what an older or newer program wrote can be compared as well.
#pragma once

#include <string>
#include <vector>

namespace mtf {

/// A value that only one configuration has is "-" in the other.
struct ConfigDifference {
  std::string path;  ///< as on the command line: "layout.batch", "model.layers.layer_1.output.hidden"
  std::string a, b;  ///< as YAML in one line

  friend bool operator==(const ConfigDifference&, const ConfigDifference&) = default;
};

/// In the order of the first file; what only the second one has comes last in its section. Where the `type`
/// of a section differs, options that only one of the types has are not listed. Throws Error when a file
/// cannot be read.
std::vector<ConfigDifference> compare_configs(const std::string& file_a, const std::string& file_b);

}  // namespace mtf
