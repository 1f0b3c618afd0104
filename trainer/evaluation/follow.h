// Waits for the checkpoints of a run that trains, possibly on other machines that share its directory.
//
//   follow_checkpoints(session, {.load = ..., .measure = ...});      // evaluate.follow
#pragma once

#include <functional>

#include "trainer/decode/chosen_weights.h"
#include "trainer/session/session.h"

namespace mtf {

struct CheckpointUse {
  /// Throws Error where the training run has removed the checkpoint meanwhile; it is then passed over.
  std::function<void(const ChosenWeights&)> load;
  std::function<void(const ChosenWeights&)> measure;
};

/// Returns when run.model_dir holds a checkpoint, or evaluate.follow_timeout has passed.
void await_checkpoint(const Config& config);

/// Uses each checkpoint of run.model_dir that appears: first the newest one, or with `evaluate.checkpoint: all` all that
/// are there. Returns after that of train.steps, when evaluate.follow_timeout has passed without a new one, and at a signal
/// to stop. The processes use the same checkpoints.
void follow_checkpoints(const Session& session, const CheckpointUse& use);

}  // namespace mtf
