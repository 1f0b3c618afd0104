#include "engine/core/layout.h"

#include <fmt/format.h>

#include "engine/base/check.h"

namespace mtf {

LayoutRules LayoutRules::parse(std::string_view text) {
  std::vector<LayoutRule> rules;
  for (const auto& [dimension, mesh_dimension] : parse_pairs(text))
    rules.push_back({dimension, {mesh_dimension}, {}});
  return LayoutRules(std::move(rules));
}

const LayoutRule* LayoutRules::find(std::string_view dimension) const {
  for (const LayoutRule& rule : rules_) {
    if (rule.dimension == dimension) return &rule;
  }
  return nullptr;
}

LayoutRules LayoutRules::without(std::string_view dimension) const {
  std::vector<LayoutRule> rules = rules_;
  std::erase_if(rules, [&](const LayoutRule& rule) { return rule.dimension == dimension; });
  return LayoutRules(std::move(rules));
}

LayoutRules LayoutRules::plus(const LayoutRules& more) const {
  std::vector<LayoutRule> rules;
  for (const LayoutRule& rule : rules_) {
    if (!more.find(rule.dimension)) rules.push_back(rule);
  }
  rules.insert(rules.end(), more.rules().begin(), more.rules().end());
  return LayoutRules(std::move(rules));
}

AxisMask Layout::split_axes() const {
  AxisMask mask = 0;
  for (const auto& axes : split) {
    for (int axis : axes) mask |= axis_bit(axis);
  }
  return mask;
}

int64_t parts(const Layout& layout, int dimension, const Mesh& mesh) {
  int64_t product = 1;
  for (int axis : layout.split[dimension]) product *= mesh.size(axis);
  return product;
}

Shape slice_shape(const Shape& shape, const Layout& layout, const Mesh& mesh) {
  MTF_CHECK(static_cast<int>(layout.split.size()) == shape.rank(), "layout of another shape than {}",
            shape.to_string());
  Shape slice = shape;
  for (int i = 0; i < shape.rank(); ++i) {
    const int64_t n = parts(layout, i, mesh);
    MTF_CHECK(shape[i].size % n == 0, "{} is not divisible by {}", shape.to_string(), n);
    if (n > 1) slice.set_size(i, shape[i].size / n);
  }
  return slice;
}

std::vector<int64_t> slice_begin(const Shape& shape, const Layout& layout, const Mesh& mesh,
                                 int64_t position) {
  const std::vector<int64_t> coordinates = mesh.coordinates(position);
  std::vector<int64_t> begin(shape.rank(), 0);
  for (int i = 0; i < shape.rank(); ++i) {
    int64_t part = shape[i].size;
    for (int axis : layout.split[i]) {
      part /= mesh.size(axis);
      begin[i] += coordinates[axis] * part;
    }
  }
  return begin;
}

std::string to_string(const Shape& shape, const Layout& layout, const Mesh& mesh) {
  std::string text = "[";
  for (int i = 0; i < shape.rank(); ++i) {
    text += fmt::format("{}{}={}", i > 0 ? ", " : "", shape[i].name, shape[i].size);
    for (int axis : layout.split[i]) text += "/" + mesh.name(axis);
  }
  text += "]";
  if (layout.partial) text += " partial sum over " + mesh.names(layout.partial);
  if (layout.pin) text += fmt::format(" at {}={}", mesh.name(layout.pin->axis), layout.pin->coordinate);
  return text;
}

}  // namespace mtf
