// Places the units of a model on the chunks of a pipeline.
#pragma once

#include "engine/graph/graph.h"
#include "engine/spmd/partition/partition.h"

namespace mtf {

/// Adds the units of the graph that Pipeline::placed lacks, and with the first graph the stages of the chunks.
void place_units(const Graph& graph, const Pipeline& pipeline, const Mesh& mesh);

/// Reports what makes Layouts::pipeline illegal for a training step or an evaluation: fewer blocks than chunks, names that
/// no unit has, blocks without a place, units on two stages, stages without a layer, other rules for its mesh dimension.
void check_pipeline(const Graph& graph, const Layouts& layouts, Diagnostics& diagnostics);

}  // namespace mtf
