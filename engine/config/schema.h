// Typed options from a Node: one description of a struct gives parsing, validation, help, dump and the
// comparison on resume.
//
//   struct TrainOptions {
//     std::optional<int64_t> steps;
//     std::vector<std::string> trainable = {".*"};
//   };
//   inline void describe(config::Visitor& visit, TrainOptions& options) {   // or a template over Visitor
//     visit("steps", options.steps, "ends the run", positive, free_on_resume);
//     visit("trainable", options.trainable, "patterns of variables");
//     visit.later("patience", "ends the run when a metric no longer improves");
//   }
//   const auto options = config::parse<TrainOptions>(node, diagnostics);
//
// Field types: bool, int, int64_t, float, double, std::string, DType, enums (with `enum_names`), described
// structs, optional, vector (a single value is a list of one), map, Named, variant (sum types), Node (left to
// another schema), Shape, LayoutRules and the types of types.h. A struct may have
//   static constexpr std::string_view type_name = "adam";   its name as an alternative of a std::variant
//   static constexpr std::string_view shorthand = "value";  a scalar or list in place of the map is this field
//   static constexpr bool type_required = true;             `type` must be written: no alternative is a default
//   static constexpr bool later = true;                     an alternative that is known but not there yet
//   static constexpr std::array common_names = {CommonName{...}};  an alternative's names in other programs
// For an enum `CommonNames common_names(E)` may stand beside `enum_names`.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/config/type_of.h"
#include "engine/config/visitor.h"

namespace mtf::config {

/// A difference between two values of a described struct.
struct Change {
  std::string path;           ///< "train.batch_size"
  std::string before, after;  ///< as YAML in one line
  Resume resume = Resume::kReported;
};

namespace internal {
std::string help(const std::vector<Section>& sections, std::string_view path);
std::vector<std::string> keys(const std::vector<Section>& sections);
std::vector<KnownKey> known_keys(const std::vector<Section>& sections, std::string_view path);
std::vector<Change> changes(const Visitor& before, const Visitor& after);
}  // namespace internal

/// `defaults` with everything that `node` says. Errors go to `diagnostics`; `path` is where `node` stands
/// ("train"). Hints at unknown keys name keys of `language` too.
template <class T>
T parse(const Node& node, Diagnostics& diagnostics, std::string path = {}, T defaults = {},
        Language language = nullptr) {
  type_of<T>().parse(node, &defaults, Place{diagnostics, std::move(path), {}, language});
  return defaults;
}

/// The value as a tree with all defaults visible. load() of to_yaml(dump(x)) parses to x again.
template <class T>
Node dump(const T& value) {
  return type_of<T>().dump(&value);
}

/// Every key of `T` below `path` ("train", "infer.checkpoint"; empty: all) with default, type and meaning, as
/// commented YAML. An unknown path is an Error of kind kUsage with the nearest key.
template <class T>
std::string help(std::string_view path = {}) {
  return internal::help(type_of<T>().sections(nullptr), path);
}

/// The top-level keys of `T`.
template <class T>
std::vector<std::string> keys() {
  return internal::keys(type_of<T>().sections(nullptr));
}

/// Every key of `T` and of all below it; `path` is where a `T` stands in the language.
template <class T>
std::vector<KnownKey> known_keys(std::string_view path = {}) {
  return internal::known_keys(type_of<T>().sections(nullptr), path);
}

/// Which keys differ, and whether that is allowed when a run is continued. Keys say so with free_on_resume,
/// reported_on_resume, fixed_on_resume; a section's word holds for the keys in it; without any: reported.
template <Described T>
std::vector<Change> changes(T before, T after) {
  Visitor visit_before, visit_after;
  describe(visit_before, before);
  describe(visit_after, after);
  return internal::changes(visit_before, visit_after);
}

}  // namespace mtf::config
