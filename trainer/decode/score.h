// Runs run.mode=score: computes the log-probability of each line of score.targets, given the same line of
// score.inputs, or of the targets of each example of score.data, given its inputs.
#pragma once

#include "trainer/session/session.h"

namespace mtf {

/// Writes a number for each line, in the same order; with score.per_token a JSON object.
void score(Session& session, Diagnostics& diagnostics);

}  // namespace mtf
