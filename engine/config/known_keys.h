// Every key of a language by its path, and what to say to a key that is none of them.
//
//   const std::vector<KnownKey> language = known_keys<Config>();
//   hint_for_unknown_key("run.steps", {"mode", "seed"}, language);   // "did you mean `train.steps`?"
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mtf::config {

/// Stands for a name that the user chooses in the path of a key.
constexpr std::string_view kChosenName = "NAME";

/// A key somewhere in a language.
struct KnownKey {
  std::string path;  ///< "optimizer.beta1"
  std::string type;  ///< the `type` of the map that it belongs to: "adam"; empty where there is none
};

/// Supplies the keys when a hint needs them.
using Language = const std::vector<KnownKey>& (*)();

/// The nearest key of the same map (`here`) or, if none is as near, of the whole language; else the keys of
/// the map. `path`: where the unknown key stands, "train.stepz".
std::string hint_for_unknown_key(std::string_view path, const std::vector<std::string>& here,
                                 const std::vector<KnownKey>& language);

}  // namespace mtf::config
