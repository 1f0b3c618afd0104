// The training loop, with logging, evaluation and checkpoints. All processes of run.mode=train run it but
// parameter servers and the asynchronous workers that are not the chief.
//
// Steps count from 1 in reports: "step 100" is the state after 100 updates, with the loss of the 100th batch
// before its update. metrics.jsonl has a line for the first step, each interval train.log_every and the last
// step; its `time` is seconds of training since the start, without evaluation.
#pragma once

#include "trainer/session/session.h"

namespace mtf {

/// Trains until train.steps, train.epochs, train.time or train.patience is reached, or until SIGTERM, SIGINT or
/// SIGHUP, after which the current step is finished and saved. If run.model_dir holds a run, resumes from its
/// newest checkpoint. Returns the exit code: 0, or 128 + the signal. Throws Error: kConfig, kData and kMemory
/// before anything is written, kCheckpoint, kSystem, kDiverged.
int train(Session& session, Diagnostics& diagnostics);

}  // namespace mtf
