#include "trainer/plan/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "trainer/session/model_inputs.h"

namespace mtf {

std::vector<std::string> mesh_names(const SplittableDimensions& dimensions, const SplitChoice& chosen,
                                    const std::optional<size_t>& stages) {
  const std::optional<size_t> batch = dimensions.find(kBatch);
  std::vector<std::string> names;
  int data = 0, model = 0;
  for (size_t axis = 0; axis < chosen.size(); ++axis) {
    if (stages == axis) {
      names.emplace_back("stages");
      continue;
    }
    const bool is_data = batch && chosen[axis][*batch];
    const int number = is_data ? ++data : ++model;
    const std::string name = is_data ? "data" : "model";
    names.push_back(number == 1 ? name : fmt::format("{}_{}", name, number));
  }
  return names;
}

LayoutRules rules_of(const SplittableDimensions& dimensions, const SplitChoice& chosen,
                     const std::vector<std::string>& names, const DimensionSet& decided) {
  std::vector<LayoutRule> rules;
  for (size_t i = 0; i < dimensions.size(); ++i) {
    LayoutRule rule{dimensions[i].name, {}, {}};
    for (size_t axis = 0; axis < chosen.size(); ++axis) {
      if (chosen[axis][i]) rule.mesh_dimensions.push_back(names[axis]);
    }
    if (!rule.mesh_dimensions.empty() && !decided[i]) rules.push_back(std::move(rule));
  }
  return LayoutRules(std::move(rules));
}

std::vector<std::vector<int>> axes_at_rest(const std::vector<int>& axes) {
  constexpr size_t kMostWithAllSubsets = 4;
  std::vector<std::vector<int>> subsets;
  if (axes.size() > kMostWithAllSubsets) {
    for (const int axis : axes) subsets.push_back({axis});
    for (ptrdiff_t n = 2; n <= std::ssize(axes); ++n) subsets.emplace_back(axes.end() - n, axes.end());
  } else {
    for (unsigned chosen = 1; chosen < 1u << axes.size(); ++chosen) {
      std::vector<int>& subset = subsets.emplace_back();
      for (size_t i = 0; i < axes.size(); ++i) {
        if ((chosen >> i) & 1u) subset.push_back(axes[i]);
      }
    }
  }
  std::ranges::stable_sort(subsets, {}, [&](const std::vector<int>& subset) {
    if (subset.size() == axes.size()) return size_t{0};
    return subset.front() == axes.back() ? size_t{1} : 1 + subset.size();
  });
  return subsets;
}

LayoutRules rest_rules(const SplittableDimensions& dimensions, const Graph& step, const Mesh& mesh,
                       const LayoutRules& layout, const LayoutRules& fixed, const std::vector<int>& axes) {
  struct Known {
    double bytes = 0;
    int64_t divisor = 0;
    std::set<std::string> companions;
  };
  std::map<std::string, Known> known;
  for (const auto& variable : step.variables()) {
    if (!variable->is_saved()) continue;
    for (const Dimension& d : variable->shape) {
      Known& k = known[d.name];
      k.divisor = std::gcd(k.divisor, d.size);
      if (variable->kind == Variable::Kind::kWeight)
        k.bytes += static_cast<double>(bytes_of(variable->shape, variable->dtype));
      for (const Dimension& other : variable->shape) k.companions.insert(other.name);
    }
  }
  std::vector<std::string> names;
  for (const auto& [name, k] : known) {
    if (k.bytes > 0 && dimensions.find(name)) names.push_back(name);
  }
  std::ranges::stable_sort(names, std::greater<>(),
                           [&](const std::string& name) { return known[name].bytes; });
  std::vector<LayoutRule> rules;
  for (const std::string& name : names) {
    if (fixed.find(name)) continue;
    const Known& k = known[name];
    const bool is_free = std::ranges::none_of(
        rules, [&](const LayoutRule& rule) { return k.companions.contains(rule.dimension); });
    LayoutRule rule{name, {}, {}};
    if (const LayoutRule* own = layout.find(name)) rule.mesh_dimensions = own->mesh_dimensions;
    bool is_split = false;  // over one of the mesh dimensions already, or a companion is
    int64_t parts = 1;
    for (const std::string& axis : rule.mesh_dimensions) parts *= mesh.size(*mesh.shape().find(axis));
    for (const int axis : axes) {
      parts *= mesh.size(axis);
      for (const std::string& companion : k.companions) {
        const LayoutRule* other = layout.find(companion);
        is_split |= other && std::ranges::find(other->mesh_dimensions, mesh.name(axis)) !=
                                 other->mesh_dimensions.end();
      }
      rule.mesh_dimensions.push_back(mesh.name(axis));
    }
    if (is_free && !is_split && k.divisor % parts == 0) rules.push_back(std::move(rule));
  }
  return LayoutRules(std::move(rules));
}

}  // namespace mtf
