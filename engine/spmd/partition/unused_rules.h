// Reports layout rules that have no effect because no tensor of their kind has the dimension, and those that split an internal
// dimension.
//
//   DimensionNames names;
//   names.add(step_graph);
//   // A rule is used if any graph of the model has its dimension.
//   check_unused_rules({layout, parameter_layout, optimizer_layout, shared}, mesh, names, {make_evaluation_graph},
//                      diagnostics);
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/core/layout.h"
#include "engine/core/mesh.h"
#include "engine/graph/graph.h"

namespace mtf {

/// The names of the dimensions in graphs, without internal ones.
struct DimensionNames {
  std::set<std::string> tensors;    ///< dimensions of all tensors and variables
  std::set<std::string> variables;  ///< dimensions of variables, except session variables

  void add(const Graph& graph);
};

/// The three sections of a configuration, each with only its own rules, and the dimensions that a model may
/// lack because their rules come from files made for several models.
struct LayoutSections {
  const LayoutRules& layout;
  const LayoutRules& parameter_layout;
  const LayoutRules& optimizer_layout;
  const std::vector<std::string>& shared;
};

using GraphMaker = std::function<std::unique_ptr<Graph>()>;

/// Reports an error, with the nearest name, for each rule of `layout` whose dimension no tensor has and for
/// each rule of the other sections whose dimension no variable has, and for each rule of an internal dimension.
/// For a shared dimension it is a warning if the name is a near miss or the rule's mesh dimensions split
/// nothing, else a note. Mesh dimensions that split no tensor are warnings. `further_graphs` of the model are
/// made, one after the other, while `names` lacks the dimension of a rule.
void check_unused_rules(const LayoutSections& sections, const Mesh& mesh, DimensionNames names,
                        const std::vector<GraphMaker>& further_graphs, Diagnostics& diagnostics);

}  // namespace mtf
