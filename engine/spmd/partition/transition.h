// Plans the collectives that bring a value from one layout to another.
#pragma once

#include <vector>

#include "engine/spmd/program.h"

namespace mtf {

/// One instruction of a transition, with the layout that results.
struct TransitionStep {
  Action action;  ///< a slice or a collective
  Layout result;
};

/// The steps from `from` to `to`. The partial sums of `to` must be a subset of those of `from`. Reductions
/// come first; then all-to-alls, slices and gathers, with a slice before a gather where both are due. A mesh
/// dimension can leave a tensor dimension only as its innermost split; where an outer split changes, the
/// inner ones are therefore undone as well.
std::vector<TransitionStep> plan_transition(const Layout& from, const Layout& to);

}  // namespace mtf
