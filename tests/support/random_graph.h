// Random graphs with whole numbers for values, so that results must be equal to the last bit however sums are
// ordered.
//
//   const RandomGraph random = random_graph(seed);
//   const LayoutRules rules = random_rules(seed, mesh);
#pragma once

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

/// About a dozen contractions, sums, maxima, elementwise operations, shifts, halves exchanged and
/// reshapes, a loop over microbatches in every third, gradients, and guarded updates of the variables.
/// Dimensions: a=4, b=6, c=8, d=12, e=2 (p, q after reshapes).
RandomGraph random_graph(uint32_t seed);

/// Splits dimensions of random graphs over the mesh; most but not all such rules are legal.
LayoutRules random_rules(uint32_t seed, const Mesh& mesh);

/// The layouts of a random graph, with rules for parameters and slots in some: null when check_layouts
/// objects.
std::unique_ptr<Layouts> random_layouts(uint32_t seed, const Graph& graph, const std::string& mesh);

}  // namespace mtf::testing
