// JointPositions are positions of one process for which one call of a kernel computes an instruction: what they share is
// prepared once, and the terms of a sum over positions are added while they are in cache.
#pragma once

#include <cstdint>
#include <vector>

namespace mtf {

/// A call has the inputs of the first position, then those of the second one, and so on; likewise the outputs, unless they are
/// summed. The results have the bits that a kernel for each position, and a collective, would give.
struct JointPositions {
  int64_t count = 1;
  int shared = -1;  ///< the input of which all positions have the same slice; -1: there is none
  /// If not empty, the results of the positions are the terms of a sum, and the call has one output, for the total. It is made in
  /// the order of reduction_tree() over a group of these sizes (comm/tree_sum.h), of which the positions are the members.
  std::vector<int64_t> summed = {};
};

}  // namespace mtf
