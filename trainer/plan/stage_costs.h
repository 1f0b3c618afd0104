// What the stages of a pipeline would send and keep, read from a step without stages.
#pragma once

#include "engine/graph/graph.h"
#include "engine/spmd/partition/partition.h"
#include "engine/spmd/program.h"

namespace mtf {

/// Bytes that a position has of what one block makes and another one reads, of one microbatch.
double handed_between_blocks(const Graph& step, const Layouts& layouts);

/// Bytes that a position keeps of the forward pass of a microbatch for its backward pass. 0: the step has no loop over
/// microbatches.
double kept_of_microbatch(const Program& step);

}  // namespace mtf
