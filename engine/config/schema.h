// Reads typed options from a Node. One description of a struct gives parsing, validation, help, dump and the
// comparison when a run is resumed.
//
//   struct TrainOptions {
//     std::optional<int64_t> steps;
//     std::vector<std::string> trainable = {".*"};
//   };
//   inline void describe(config::Visitor& visit, TrainOptions& options) {   // or a template over Visitor
//     visit("steps", options.steps, "ends the run", positive, free_on_resume);
//     visit("trainable", options.trainable, "patterns of variables");
//   }
//   const auto options = config::parse<TrainOptions>(node, diagnostics);
//
// The type of a field is bool, int, int64_t, float, double, std::string, DType, an enum (with `enum_names`),
// a described struct, optional, vector (a single value is a list of one), map, Named, variant (a sum type),
// Node (another schema reads it), Shape, LayoutRules or a type of types.h. A struct may have
//   static constexpr std::string_view type_name = "adam";   the name of this alternative of a std::variant
//   static constexpr std::string_view shorthand = "value";  the field that a scalar or list sets
//   static constexpr bool type_required = true;             `type` is required: no alternative is the default
//   static constexpr std::array common_names = {CommonName{...}};  names of the alternative in other programs
// An enum may have `CommonNames common_names(E)` beside `enum_names`.
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
  std::string before, after;  ///< in one-line YAML, or "not given"
  Resume resume = Resume::kReported;
};

namespace internal {
std::string help(const std::vector<Section>& sections, std::string_view path);
std::vector<std::string> keys(const std::vector<Section>& sections);
std::vector<KnownKey> known_keys(const std::vector<Section>& sections, std::string_view path);
std::vector<Change> changes(const Visitor& before, const Visitor& after);
}  // namespace internal

/// Returns `defaults` with the values of `node`. Errors are added to `diagnostics`; `path` is the path of
/// `node` ("train"). Hints for unknown keys also search the keys of `language`.
template <class T>
T parse(const Node& node, Diagnostics& diagnostics, std::string path = {}, T defaults = {},
        Language language = nullptr) {
  type_of<T>().parse(node, &defaults, Place{diagnostics, std::move(path), {}, language});
  return defaults;
}

/// Returns the value as a tree that includes all defaults. load() of to_yaml(dump(x)) parses to x again.
template <class T>
Node dump(const T& value) {
  return type_of<T>().dump(&value);
}

/// Returns every key of `T` at and below `path` ("train", "infer.checkpoint"; empty: all) with its default,
/// type and meaning, as commented YAML. Throws Error (kUsage) with the nearest key if the path is unknown.
template <class T>
std::string help(std::string_view path = {}) {
  return internal::help(type_of<T>().sections(nullptr), path);
}

/// Returns the top-level keys of `T`.
template <class T>
std::vector<std::string> keys() {
  return internal::keys(type_of<T>().sections(nullptr));
}

/// Returns all keys of `T` and of the structs in it; `path` is the path of `T` in the language.
template <class T>
std::vector<KnownKey> known_keys(std::string_view path = {}) {
  return internal::known_keys(type_of<T>().sections(nullptr), path);
}

/// Returns the keys whose values differ, and whether they may differ when a run is resumed. A key says so
/// with free_on_resume, reported_on_resume or fixed_on_resume; a section's attribute applies to the keys in
/// it; the default is reported.
template <Described T>
std::vector<Change> changes(T before, T after) {
  Visitor visit_before, visit_after;
  describe(visit_before, before);
  describe(visit_after, after);
  return internal::changes(visit_before, visit_after);
}

}  // namespace mtf::config
