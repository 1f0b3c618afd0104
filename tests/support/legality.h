// A brute-force implementation of the legality of layouts ("Illegal layouts" in docs/architecture.md): it
// examines which elements the positions would hold, not the names in the rules. Tests compare the layout
// check with it.
#pragma once

#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/spmd/partition/partition.h"

namespace mtf::testing {

/// Empty if the layout is legal for everything that the graph computes, otherwise the first reason.
std::string why_illegal(const Graph& graph, const Layouts& layouts);

/// The names of all dimensions in the graph that rules may split, sorted.
std::vector<std::string> dimension_names(const Graph& graph);

/// All assignments of each name to one mesh dimension or none.
std::vector<Layouts> all_layouts(const std::vector<std::string>& names, const std::string& mesh);

/// The activation rules as text, such as "batch:x;hidden:y".
std::string describe(const Layouts& layouts);

}  // namespace mtf::testing
