// When a run ends: train.steps, train.epochs, train.time and train.patience, whichever comes first.
#pragma once

#include <optional>
#include <string>

#include "trainer/checkpoint/checkpoints.h"
#include "trainer/config/config.h"

namespace mtf {

/// The reason when a limit of `train` is reached, as a person reads it: "train.steps = 1000"; empty: the run
/// goes on.
std::string reached_limit(const Session& session, const RunState& state);

/// Number of steps in a row without finite values with which a run has diverged: 1, or 20 with
/// `train.on_divergence: skip`.
int64_t diverges_after(const TrainOptions& train);

/// Takes an evaluation into account, for train.patience: state.best and state.worse_evaluations.
void count_evaluation(const TrainOptions& train, const Metrics& evaluation, RunState& state);

}  // namespace mtf
