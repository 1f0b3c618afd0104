// Finds the keys that differ between the configurations of two runs.
//
//   const std::string one = "runs/one/config.yaml", mesh = "runs/mesh/config.yaml";
//   for (const ConfigDifference& difference : compare_configs(one, mesh)) ...
//
// The YAML trees are compared, not typed options, so files of older or newer versions of the program can be
// compared, too.
#pragma once

#include <string>
#include <vector>

namespace mtf {

/// A key whose values differ. If only one configuration has the key, the value of the other is "-".
struct ConfigDifference {
  std::string path;  ///< as on the command line: "model.layers.layer_1.output.hidden"
  std::string a, b;  ///< the values as YAML in one line

  friend bool operator==(const ConfigDifference&, const ConfigDifference&) = default;
};

/// Returns the differences in the order of the first file; keys that only the second file has come last in
/// their section. If the `type` of a section differs, options that only one of the types has are not listed.
/// Throws Error when a file cannot be read.
std::vector<ConfigDifference> compare_configs(const std::string& file_a, const std::string& file_b);

}  // namespace mtf
