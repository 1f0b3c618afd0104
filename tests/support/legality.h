// A second implementation of which layouts are legal (docs/architecture.md "Illegal layouts"), by brute
// force: it looks at which elements the positions would hold, not at the rules' names. Tests compare the
// layout check with it.
#pragma once

#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/spmd/partition/partition.h"

namespace mtf::testing {

/// Empty when the layout is legal for everything that the graph computes, else the first reason.
std::string why_illegal(const Graph& graph, const Layouts& layouts);

/// Names of all dimensions in the graph, sorted.
std::vector<std::string> dimension_names(const Graph& graph);

/// Every assignment of each name to no mesh dimension or to one of them.
std::vector<Layouts> all_layouts(const std::vector<std::string>& names, const std::string& mesh);

/// "batch:x;hidden:y" of the activation rules.
std::string describe(const Layouts& layouts);

}  // namespace mtf::testing
