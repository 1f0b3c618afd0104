// Finds sums over positions of one process whose terms need no memory: the total is made while the terms are computed
// (JointPositions). These are all_reduces of products, as in the gradients of weights where the batch is split.
#pragma once

#include <map>

#include "engine/core/hosted_mesh.h"
#include "engine/spmd/program.h"

namespace mtf {

struct PositionSum {
  ValueId total = kNoValue;
  const Instruction* reduction = nullptr;  ///< the all_reduce that makes the total of the term
};

/// The sums, by term: a value that nothing reads but its all_reduce, later in the same block. Whether a backend makes the total
/// with the term is for it to say; the memory of the total is in use from then on in any case. None with `replicate`
/// (run.check_replicas), where each position computes its own term.
std::map<ValueId, PositionSum> position_sums(const Program& program, const HostedMesh& mesh, bool replicate);

}  // namespace mtf
