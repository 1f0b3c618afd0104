// run.mode=train: the loop over batches, with reports and evaluation in between.
//
// Steps count from 1 in reports: "step 100" is the state after 100 updates, with the loss of the 100th batch
// before its update. metrics.jsonl has a line for the first step, each interval train.log_every and the last
// step; its `time` is seconds of training since the start, without evaluation.
#pragma once

#include "trainer/session/session.h"

namespace mtf {

/// Trains until train.steps, train.epochs, train.time or train.patience ends it, or SIGTERM or SIGINT: these
/// finish and save the step in hand. Where run.model_dir holds a run, goes on with its newest checkpoint.
/// Returns the exit code: 0, or 128 + the signal. Throws Error: kConfig, kData and kMemory before anything is
/// written, kCheckpoint, kSystem, kDiverged.
int train(Session& session, Diagnostics& diagnostics);

}  // namespace mtf
