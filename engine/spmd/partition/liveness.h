// Which operations of a graph matter: those that an output or an assignment depends on.
#pragma once

#include <unordered_set>

#include "engine/graph/graph.h"

namespace mtf {

using OperationSet = std::unordered_set<const Operation*>;

/// Operations, inside loop bodies too, that the graph's outputs and assignments need.
OperationSet live_operations(const Graph& graph);
/// Operations of `block` and its loops that `roots` need.
OperationSet live_operations(const Block& block, const Tensors& roots);

}  // namespace mtf
