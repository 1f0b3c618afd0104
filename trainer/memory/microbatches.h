// Decides `train.microbatches: auto`: the fewest microbatches with which a run fits into the memory.
//
//   const MicrobatchChoice choice = choose_microbatches(session, options, evaluation, use, {});
//   options.microbatches = choice.count;
//   log(choice.reason);   // "train.microbatches: auto is 4: with 2 the run would need 1.2 GB, ..."
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/memory/need.h"

namespace mtf {

struct MicrobatchChoice {
  int64_t count = 1;
  std::string reason;  ///< one line for the log
};

/// Returns the numbers of microbatches that divide the batch and leave each microbatch divisible by the number of parts
/// into which the layout splits it, in ascending order.
std::vector<int64_t> microbatch_counts(const Layouts& layouts, int64_t batch_size);

/// Returns the least number of microbatches, among those that divide the batch as it is laid out, with which
/// the training step of `options` and `evaluation` (null: none) fit into the memory of this process; where
/// none does, the largest number. With layers whose batch statistics microbatches would change it is one,
/// whether it fits or not. If the number of `before` fits, it is returned.
/// The step of `options` must be legal without microbatches.
MicrobatchChoice choose_microbatches(const Session& session, TrainStepOptions options,
                                     const Program* evaluation, const MemoryUse& use,
                                     const std::optional<EarlierRecompute>& before);

}  // namespace mtf
