// run.mode=train: the loop over batches, with reports and evaluation in between.
//
// Steps count from 1 in reports: "step 100" is the state after 100 updates, with the loss of the 100th batch
// before its update. metrics.jsonl has a line for the first step, each interval train.log_every and the last
// step; its `time` is seconds of training since the start, without evaluation.
#pragma once

#include "trainer/session.h"

namespace mtf {

/// Trains until train.steps, train.epochs or train.time, whichever ends first. Throws Error: kConfig before
/// anything is written, kDiverged when loss or gradients are not finite.
void train(const Session& session, Diagnostics& diagnostics);

}  // namespace mtf
