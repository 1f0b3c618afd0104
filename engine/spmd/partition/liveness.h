// Finds the live operations of a graph: those that an output or an assignment depends on.
#pragma once

#include <unordered_set>

#include "engine/graph/graph.h"

namespace mtf {

using OperationSet = std::unordered_set<const Operation*>;

/// The operations, including those in loop bodies, on which the graph's outputs and assignments depend.
OperationSet live_operations(const Graph& graph);
/// The operations of `block` and its loops on which `roots` and assignments depend.
OperationSet live_operations(const Block& block, const Tensors& roots);

}  // namespace mtf
