// Runs one operation's kernel on the slices of all positions of a mesh, as its placement asks, and puts the
// outputs together again: what the operation itself does about begins of slices and partial sums, without a
// partitioner.
#pragma once

#include <vector>

#include "engine/core/mesh.h"
#include "tests/support/evaluate_tensors.h"

namespace mtf::testing {

/// Outputs of `operation` for whole `inputs` under these rules; partial outputs are added.
std::vector<Values> evaluate_split(const Operation& operation, const std::vector<Values>& inputs,
                                   const Mesh& mesh, const LayoutRules& rules,
                                   const EvaluateOptions& options = {}, int64_t iteration = 0);

}  // namespace mtf::testing
