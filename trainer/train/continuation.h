// A run that goes on in a directory that holds one already: from which checkpoint, and whether the
// configuration allows it (what may change is marked in the schema).
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
  std::optional<SavedCheckpoint> checkpoint;  ///< the newest; nothing: the run begins again at step 0
  std::vector<DamagedSave> damaged;           ///< newer ones that are passed over (checkpoint.on_damage)
  std::string trained_with;                   ///< the resolved configuration until now; empty: not known
  std::vector<std::string> changes;           ///< what is different now, one line each
  bool architecture_changed = false;          ///< a changed model or optimizer is allowed by run.allow_change
};

/// Nothing: run.model_dir holds no run. Changes that are not allowed, against what the checkpoint was trained
/// with, go to `diagnostics` with both values, and so does run.on_existing: fail. A batch size that depends
/// on the layout becomes that of the old run. Throws Error (kCheckpoint) when the checkpoint is none to go on
/// from.
std::optional<Continuation> find_continuation(Config& config, Diagnostics& diagnostics);

}  // namespace mtf
