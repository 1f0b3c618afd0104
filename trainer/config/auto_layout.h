// Meshes and layouts in which `auto` stands for what is still to be found (trainer/plan/choose_layout.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "engine/config/schema.h"
#include "engine/core/layout.h"

namespace mtf {

/// In a mesh or a layout this key stands for what is still to be found.
inline constexpr std::string_view kAutoKey = "auto";

/// True if layout rules can name a tensor dimension: it is not internal, and its name is not kAutoKey.
inline bool takes_rules(std::string_view dimension) {
  return !is_internal(dimension) && dimension != kAutoKey;
}

/// A mesh, or `auto`, or `{auto: 8}`, which may be written "auto:8".
struct AutoMesh : config::MeshSizes {
  AutoMesh() = default;
  AutoMesh(config::MeshSizes sizes) : config::MeshSizes(std::move(sizes)) {}
  /// Names and sizes are still to be found, for `positions` where that is given.
  bool is_auto = false;
  std::optional<int64_t> positions = {};
  friend bool operator==(const AutoMesh&, const AutoMesh&) = default;
};

/// Layout rules, of which further ones are still to be found with `auto` or `{batch: rows, auto: true}`.
struct AutoLayout : LayoutRules {
  AutoLayout() = default;
  AutoLayout(LayoutRules rules, bool is_auto = false) : LayoutRules(std::move(rules)), is_auto(is_auto) {}
  bool is_auto = false;
};

namespace config {
template <>
const Type& type_of<AutoMesh>();
template <>
const Type& type_of<AutoLayout>();
}  // namespace config

}  // namespace mtf
