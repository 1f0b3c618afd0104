// Decides `train.recompute: auto`, and `train.microbatches: auto` with it: what is computed again in the backward pass, and
// in how many microbatches, so that a training step fits into the memory in the least predicted time.
//
//   const RecomputeChoice choice = choose_recompute(session, {.options = options, .use = use, .limits = limits});
//   options.recompute = choice.recompute;
//   log(choice.reason);   // "train.recompute: auto is {block: 4}: 61.2 ms a step predicted, 1.2 GB of 1.25 GB (...)"
//
// Every choice that counts is compiled, its memory planned and its time predicted. Candidates are the first n of the layers
// of a kind or name: n is the smallest that fits, which interpolation finds in two or three trials since the memory falls
// about linearly. They are the first ones because the backward pass comes to them last, when the memory of the others is
// free again. Where all layers of the cheapest kind do not suffice, the first ones of the next kind join them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/costs/recompute_search.h"
#include "trainer/memory/memory_check.h"
#include "trainer/session/session.h"

namespace mtf {

struct RecomputeChoice {
  Recompute recompute = RecomputeWord::kNone;
  int64_t microbatches = 1;
  std::string reason;  ///< one line for the log
  /// The choice, what takes less time or less memory than any other that was compiled, and for comparison none and block;
  /// the fastest first.
  std::vector<RecomputeTrial> trials;
};

struct RecomputeRequest {
  TrainStepOptions options;           ///< which must be legal, with one microbatch if these are to be chosen
  bool chooses_microbatches = false;  ///< train.microbatches is auto, too
  const Program* evaluation = nullptr;  ///< null: none
  MemoryUse use;
  ProcessLimits limits;                         ///< one entry for each process
  std::optional<EarlierRecompute> before = {};  ///< is kept if it fits
  bool compares_block = false;                  ///< `trials` has recompute: block in any case
};

RecomputeChoice choose_recompute(const Session& session, const RecomputeRequest& request);

}  // namespace mtf
