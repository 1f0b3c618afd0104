#include "trainer/config/auto_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace mtf::config {
namespace {

bool is_word_auto(const Node& node) { return node.is_scalar() && node.text() == kAutoKey; }

/// The map that the text "a:2;b:4" stands for; any other node as it is.
Node without_pairs(const Node& node, const std::string& example, Diagnostics& diagnostics) {
  const bool is_pairs = node.is_scalar() && node.text().find(':') != std::string::npos;
  return is_pairs ? pairs_to_map(node, example, diagnostics) : node;
}

class AutoMeshType final : public Type {
 public:
  std::string name() const override { return sizes().name() + ", or auto, or {auto: 8}"; }
  bool accepts(const Node& node) const override { return sizes().accepts(node); }

  void parse(const Node& given, void* value, const Place& place) const override {
    const Node node = without_pairs(given, "{rows: 2, cols: 4} or \"rows:2;cols:4\"", place.diagnostics);
    auto& mesh = *static_cast<AutoMesh*>(value);
    mesh = {};
    const Entry* word = node.is_map() ? node.entry(kAutoKey) : nullptr;
    if (word == nullptr) {
      mesh.is_auto = is_word_auto(node);
      if (!mesh.is_auto) sizes().parse(node, static_cast<MeshSizes*>(&mesh), place);
      return;
    }
    for (const Entry& entry : node.entries()) {
      if (entry.key == kAutoKey || entry.value.is_null()) continue;
      return place.diagnostics.error(
          entry.mark,
          fmt::format("{} has names beside `auto`, for which names are still to be found", place.name()),
          fmt::format("`{{auto: 8}}` alone, or `{{{}: auto}}` for one size", entry.key));
    }
    mesh.is_auto = true;
    if (is_word_auto(word->value)) return;
    MeshSizes positions;  // checks the number as a size
    sizes().parse(node, &positions, place);
    if (!positions.axes.empty()) mesh.positions = positions.axes[0].size;
  }

  Node dump(const void* value) const override {
    const auto& mesh = *static_cast<const AutoMesh*>(value);
    if (!mesh.is_auto) return sizes().dump(static_cast<const MeshSizes*>(&mesh));
    if (!mesh.positions) return Node::scalar(std::string(kAutoKey));
    return Node::map({{std::string(kAutoKey), {}, Node::scalar(std::to_string(*mesh.positions))}});
  }

 private:
  static const Type& sizes() { return type_of<MeshSizes>(); }
};

class AutoLayoutType final : public Type {
 public:
  std::string name() const override { return rules().name() + ", or auto"; }
  bool accepts(const Node& node) const override { return rules().accepts(node); }

  void parse(const Node& given, void* value, const Place& place) const override {
    const Node node =
        without_pairs(given, "{batch: rows, hidden: cols} or \"batch:rows;hidden:cols\"", place.diagnostics);
    auto& layout = *static_cast<AutoLayout*>(value);
    layout = {};
    layout.is_auto = is_word_auto(node);
    if (layout.is_auto) return;
    const Node* word = node.is_map() ? node.find(kAutoKey) : nullptr;
    if (word != nullptr) type_of<bool>().parse(*word, &layout.is_auto, place.at(kAutoKey));
    rules().parse(node.is_map() ? node.without(kAutoKey) : node, static_cast<LayoutRules*>(&layout), place);
  }

  Node dump(const void* value) const override {
    const auto& layout = *static_cast<const AutoLayout*>(value);
    if (layout.is_auto && layout.empty()) return Node::scalar(std::string(kAutoKey));
    const Node given = rules().dump(static_cast<const LayoutRules*>(&layout));
    if (!layout.is_auto) return given;
    return given.with({std::string(kAutoKey), {}, Node::scalar("true")});
  }

 private:
  static const Type& rules() { return type_of<LayoutRules>(); }
};

}  // namespace

template <>
const Type& type_of<AutoMesh>() {
  static const AutoMeshType kType;
  return kType;
}

template <>
const Type& type_of<AutoLayout>() {
  static const AutoLayoutType kType;
  return kType;
}

}  // namespace mtf::config
