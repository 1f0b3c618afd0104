// Layout rules that do nothing: no tensor of their kind has the dimension.
//
//   DimensionNames names;
//   names.add(step_graph);
//   names.add(evaluation_graph);   // a rule is used where any graph of the model has its dimension
//   check_unused_rules({layout, parameter_layout, optimizer_layout, shared}, mesh, names, diagnostics);
#pragma once

#include <set>
#include <string>
#include <vector>

#include "engine/core/layout.h"
#include "engine/core/mesh.h"
#include "engine/graph/graph.h"

namespace mtf {

/// Names of the dimensions in graphs.
struct DimensionNames {
  std::set<std::string> tensors;    ///< of anything that is computed, read or kept
  std::set<std::string> variables;  ///< of variables but those of a session

  void add(const Graph& graph);
};

/// The three sections of a configuration, each with its own rules only, and the dimensions that a model may
/// lack: their rules come from files that are made for several models.
struct LayoutSections {
  const LayoutRules& layout;
  const LayoutRules& parameter_layout;
  const LayoutRules& optimizer_layout;
  const std::vector<std::string>& shared;
};

/// True when each rule finds its dimension.
bool all_rules_used(const LayoutSections& sections, const DimensionNames& names);

/// A rule of `layout` whose dimension no tensor has, and one of the others whose dimension no variable has,
/// is an error with the nearest name; if it is shared, a warning when the name is a near miss or its mesh
/// dimension splits nothing, else a note. Mesh dimensions that split no tensor are warnings.
void check_unused_rules(const LayoutSections& sections, const Mesh& mesh, const DimensionNames& names,
                        Diagnostics& diagnostics);

}  // namespace mtf
