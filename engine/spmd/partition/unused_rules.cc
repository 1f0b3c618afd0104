#include "engine/spmd/partition/unused_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>

#include "engine/base/nearest.h"
#include "engine/graph/structural.h"
#include "engine/spmd/partition/liveness.h"

namespace mtf {
namespace {

void add_names(const Shape& shape, std::set<std::string>& names) {
  for (const Dimension& d : shape) {
    if (!is_internal(d.name)) names.insert(d.name);
  }
}

void add_block(const Block& block, const OperationSet& live, std::set<std::string>& names) {
  for (const auto& operation : block) {
    if (!live.contains(operation.get())) continue;
    for (const Tensor& input : operation->inputs()) add_names(input.shape(), names);
    for (const OutputInfo& output : operation->outputs()) add_names(output.shape, names);
    if (const auto* loop = dynamic_cast<const Repeat*>(operation.get())) add_block(loop->body, live, names);
  }
}

/// One of the three sections of layout rules, with the dimensions that its rules may name.
struct RuleSection {
  std::string_view name;
  const LayoutRules& rules;
  std::string_view kind;               ///< "tensor" or "variable", for messages
  const std::set<std::string>& names;  ///< dimensions of these tensors
};

std::array<RuleSection, 3> sections_of(const LayoutSections& sections, const DimensionNames& names) {
  return {RuleSection{"layout", sections.layout, "tensor", names.tensors},
          RuleSection{"parameter_layout", sections.parameter_layout, "variable", names.variables},
          RuleSection{"optimizer_layout", sections.optimizer_layout, "variable", names.variables}};
}

bool all_rules_used(const LayoutSections& sections, const DimensionNames& names) {
  return std::ranges::all_of(sections_of(sections, names), [](const RuleSection& section) {
    return std::ranges::all_of(section.rules.rules(), [&](const LayoutRule& rule) {
      return section.names.contains(rule.dimension);
    });
  });
}

class UnusedRules {
 public:
  UnusedRules(const LayoutSections& sections, const Mesh& mesh, const DimensionNames& names,
              Diagnostics& diagnostics)
      : sections_(sections_of(sections, names)),
        shared_(sections.shared),
        mesh_(mesh),
        diagnostics_(diagnostics) {
    for (const RuleSection& section : sections_) {
      for (const LayoutRule& rule : section.rules.rules()) {
        if (!section.names.contains(rule.dimension)) continue;
        splitting_.insert(rule.mesh_dimensions.begin(), rule.mesh_dimensions.end());
        ruled_.insert(rule.dimension);
      }
    }
  }

  void run() {
    for (const RuleSection& section : sections_) {
      for (const LayoutRule& rule : section.rules.rules()) {
        if (section.names.contains(rule.dimension) || is_reversed(rule)) continue;
        if (is_internal(rule.dimension)) {
          refuse(section, rule);
        } else if (std::ranges::find(shared_, rule.dimension) != shared_.end()) {
          mention(section, rule);
        } else {
          report(section, rule);
        }
      }
    }
    for (const Dimension& d : mesh_.shape()) {
      if (d.size == 1 || splitting_.contains(d.name)) continue;
      diagnostics_.warning(
          {}, fmt::format("mesh dimension `{}` ({}) splits no tensor: all its positions do the same work",
                          d.name, d.size));
    }
  }

 private:
  /// True for "mesh dimension: tensor dimension", an error that the check of mesh dimensions explains better.
  bool is_reversed(const LayoutRule& rule) const {
    return mesh_.shape().contains(rule.dimension) &&
           std::ranges::none_of(rule.mesh_dimensions,
                                [&](const std::string& name) { return mesh_.shape().contains(name); });
  }

  /// Dimension names that `section` may have meant. Dimensions with an effective rule are left out: whoever
  /// spelled a name correctly once is unlikely to misspell it in another rule.
  std::vector<std::string> candidates(const RuleSection& section) const {
    std::vector<std::string> names;
    std::ranges::set_difference(section.names, ruled_, std::back_inserter(names));
    return names;
  }

  void refuse(const RuleSection& section, const LayoutRule& rule) {
    diagnostics_.error(
        rule.mark,
        fmt::format("{} splits `{}`, and dimensions whose names {} are internal", section.name,
                    rule.dimension, rule.dimension.starts_with('_') ? "begin with `_`" : "have `\\`"),
        did_you_mean("", {section.names.begin(), section.names.end()}));
  }

  void report(const RuleSection& section, const LayoutRule& rule) {
    const std::optional<std::string> close = nearest(rule.dimension, candidates(section));
    std::string hint = close ? fmt::format("did you mean `{}`?", *close)
                             : did_you_mean("", {section.names.begin(), section.names.end()});
    if (!close && rule.mark.line > 0)
      hint += fmt::format("{}`shared_layout: true` in a file of layouts for several models",
                          hint.empty() ? "" : ", or ");
    diagnostics_.error(rule.mark,
                       fmt::format("{} splits `{}`, a dimension that no {} of the model has", section.name,
                                   rule.dimension, section.kind),
                       hint);
  }

  void mention(const RuleSection& section, const LayoutRule& rule) {
    const std::optional<std::string> close = nearest(rule.dimension, candidates(section));
    const bool idle = std::ranges::none_of(
        rule.mesh_dimensions, [&](const std::string& name) { return splitting_.contains(name); });
    std::string message =
        fmt::format("{} rule for `{}` matches no {}", section.name, rule.dimension, section.kind);
    if (close) message += fmt::format("; did you mean `{}`?", *close);
    if (!close && idle)
      message += fmt::format("; mesh dimension `{}` splits nothing", fmt::join(rule.mesh_dimensions, ", "));
    if (close || idle) {
      diagnostics_.warning(rule.mark, message);
    } else {
      diagnostics_.note(message);
    }
  }

  const std::array<RuleSection, 3> sections_;
  const std::vector<std::string>& shared_;
  const Mesh& mesh_;
  Diagnostics& diagnostics_;
  std::set<std::string> splitting_;  ///< mesh dimensions that split something
  std::set<std::string> ruled_;      ///< dimensions that have an effective rule
};

}  // namespace

void DimensionNames::add(const Graph& graph) {
  add_block(graph.root(), live_operations(graph), tensors);
  for (const auto& variable : graph.variables()) {
    add_names(variable->shape, tensors);
    if (variable->kind != Variable::Kind::kSession) add_names(variable->shape, variables);
  }
}

void check_unused_rules(const LayoutSections& sections, const Mesh& mesh, DimensionNames names,
                        const std::vector<GraphMaker>& further_graphs, Diagnostics& diagnostics) {
  for (const GraphMaker& make : further_graphs) {
    if (all_rules_used(sections, names)) break;
    names.add(*make());
  }
  UnusedRules(sections, mesh, names, diagnostics).run();
}

}  // namespace mtf
