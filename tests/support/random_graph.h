// Random graphs whose values are whole numbers, so that results must be equal to the last bit in whatever
// order sums are computed.
//
//   const RandomGraph random = random_graph(seed);
//   const LayoutRules rules = random_rules(seed, mesh);
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "engine/graph/graph.h"
#include "engine/spmd/partition/partition.h"
#include "tests/support/operation_cases.h"

namespace mtf::testing {

struct RandomGraph {
  std::unique_ptr<Graph> graph;
  std::map<std::string, Values> feeds;
  std::map<std::string, Values> variables;  ///< initial values
};

/// A graph with about a dozen contractions, sums, maxima, elementwise operations, shifts, exchanged halves
/// and reshapes, a loop over microbatches in every third graph, gradients, and guarded updates of the
/// variables. Dimensions: a=4, b=6, c=8, d=12, e=2 (p, q after reshapes).
RandomGraph random_graph(uint32_t seed);

/// Rules that split dimensions of random graphs over the mesh; most of them, but not all, are legal.
LayoutRules random_rules(uint32_t seed, const Mesh& mesh);

/// Layouts for a random graph, some with rules for parameters and slots. Null if check_layouts finds them
/// illegal.
std::unique_ptr<Layouts> random_layouts(uint32_t seed, const Graph& graph, const std::string& mesh);

}  // namespace mtf::testing
