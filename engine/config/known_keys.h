// All keys of the configuration language with their paths, and hints for unknown keys.
//
//   const std::vector<KnownKey> language = known_keys<Config>();
//   hint_for_unknown_key("run.steps", {"mode", "seed"}, language);   // "did you mean `train.steps`?"
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mtf::config {

/// In the path of a key, stands for a name that the user chooses.
constexpr std::string_view kChosenName = "NAME";

/// A key of a language.
struct KnownKey {
  std::string path;  ///< such as "optimizer.beta1"
  std::string type;  ///< the `type` of the map that has the key, such as "adam"; empty if there is none
};

/// A function that returns the keys; it is called only when a hint needs them.
using Language = const std::vector<KnownKey>& (*)();

/// Returns a hint for the unknown key at `path` ("train.stepz"): the nearest key of the same map (`here`), or if that is
/// nearer, one of the whole language; otherwise it lists the keys of the map. `has_type`: its value is a map with a
/// `type`, as that of a name that the user chooses.
std::string hint_for_unknown_key(std::string_view path, const std::vector<std::string>& here,
                                 const std::vector<KnownKey>& language, bool has_type = false);

}  // namespace mtf::config
