// Finds the checkpoint from which a run resumes, and checks whether the configuration allows it (the schema
// marks the keys that may change).
//
//   if (const std::optional<Continuation> old = find_continuation(config, diagnostics)) ...
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/checkpoint/newest_checkpoint.h"
#include "trainer/config/config.h"

namespace mtf {

struct Continuation {
  std::optional<SavedCheckpoint> checkpoint;  ///< the newest; nullopt: the run starts again at step 0
  std::vector<DamagedSave> damaged;           ///< newer ones that are skipped (checkpoint.on_damage)
  std::string trained_with;                   ///< the resolved configuration until now; empty if unknown
  std::vector<std::string> changes;           ///< changes of the configuration, one line each
  bool architecture_changed = false;  ///< model or optimizer have changed, allowed by run.allow_change
  bool patience_changed = false;  ///< train.patience has another metric: the best value so far is not its own
};

/// Returns nullopt if run.model_dir holds no run. Changes that are not allowed since the checkpoint was
/// trained are reported to `diagnostics` with both values, and so is run.on_existing: fail. A batch size that
/// depends on the layout, `train.microbatches: auto` and `train.recompute: auto` are set to those of the old run. Throws Error
/// (kCheckpoint) when the run cannot resume from the checkpoint.
std::optional<Continuation> find_continuation(Config& config, Diagnostics& diagnostics);

/// Returns the continuation of a run that has set a damaged checkpoint aside. Throws Error with the problems of
/// the configuration, and (kCheckpoint) when the directory holds no other checkpoint.
Continuation older_continuation(Config config);

}  // namespace mtf
