// The collectives that bring a value from one layout to another.
#pragma once

#include <vector>

#include "engine/spmd/program.h"

namespace mtf {

/// One instruction of a transition and the layout it leaves.
struct TransitionStep {
  InstructionKind kind = InstructionKind::kSlice;
  AxisMask axes = 0;
  int dimension = -1;
  int concat_dimension = -1;
  Layout result;
};

/// Steps from `from` to `to`, whose partial sums must be a subset of `from`'s. Sums first; then all-to-alls,
/// slices and gathers, a slice before a gather where both are due. A mesh dimension can only leave a tensor
/// dimension as its innermost split, so that outer splits that change take inner ones with them.
std::vector<TransitionStep> plan_transition(const Layout& from, const Layout& to);

}  // namespace mtf
