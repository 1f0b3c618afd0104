// Decides when a run ends: by train.steps, train.epochs, train.time or train.patience, whichever comes first.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "trainer/checkpoint/checkpoints.h"
#include "trainer/config/config.h"

namespace mtf {

/// Returns the limit of `train` that is reached, "train.steps = 1000"; empty if the run continues.
std::string reached_limit(const Session& session, const RunState& state);

/// Returns the number of consecutive steps with values that are not finite after which a run has diverged: 1,
/// or 20 with `train.on_divergence: skip`.
int64_t diverges_after(const TrainOptions& train);

/// Updates state.best and state.worse_evaluations by an evaluation, for train.patience.
void count_evaluation(const TrainOptions& train, const Metrics& evaluation, RunState& state);

}  // namespace mtf
