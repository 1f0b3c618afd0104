// Decides `train.microbatches: auto` where `train.recompute` is given: the fewest microbatches with which a run fits into the
// memory; with stages of a pipeline, which wait less with more of them, those with which a step takes the shortest time.
//
//   const MicrobatchChoice choice = choose_microbatches(session, options, evaluation, use, {});
//   options.microbatches = choice.count;
//   log(choice.reason);   // "train.microbatches: auto is 4: fewer do not fit (...)"
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "trainer/memory/need.h"
#include "trainer/session/session.h"

namespace mtf {

struct MicrobatchChoice {
  int64_t count = 1;
  std::string reason;  ///< one line for the log
};

/// Returns the least number of microbatches, among those that divide the batch as it is laid out, with which
/// the training step of `options` and `evaluation` (null: none) fit into the memory of this process, and where
/// the run is only planned, of each process; where none does, the largest number. With layers whose batch statistics
/// microbatches would change it is one, whether it fits or not. With stages of a pipeline it is the number that fits and
/// takes the shortest time. If the number of `before` fits, it is returned.
/// The step of `options` must be legal without microbatches.
MicrobatchChoice choose_microbatches(const Session& session, TrainStepOptions options,
                                     const Program* evaluation, const MemoryUse& use,
                                     const std::optional<EarlierRecompute>& before);

}  // namespace mtf
