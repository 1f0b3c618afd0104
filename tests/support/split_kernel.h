// Runs one operation's kernel on the slices of all positions of a mesh, as its sharding rule requires, and
// reassembles the outputs. This tests, without a partitioner, how the operation handles the begins of slices
// and partial sums.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/core/mesh.h"
#include "tests/support/evaluate_tensors.h"

namespace mtf::testing {

/// The outputs of `operation` for whole `inputs` under these rules; partial outputs are summed.
std::vector<Values> evaluate_split(const Operation& operation, const std::vector<Values>& inputs,
                                   const Mesh& mesh, const LayoutRules& rules,
                                   const EvaluateOptions& options = {}, int64_t iteration = 0);

}  // namespace mtf::testing
