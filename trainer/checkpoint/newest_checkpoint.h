// Finds the checkpoint from which a run resumes: the newest one or, if that is damaged and
// checkpoint.on_damage allows it, an older one.
//
//   const NewestCheckpoint newest = newest_checkpoint(config);
//   if (newest.checkpoint) CheckpointReader reader(newest.checkpoint->path);
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/checkpoint/checkpoint.h"
#include "trainer/config/config.h"
#include "trainer/session/session.h"

namespace mtf {

/// A checkpoint that cannot be read, and the reason.
struct DamagedSave {
  SavedCheckpoint checkpoint;
  std::string reason;
};

struct NewestCheckpoint {
  std::optional<SavedCheckpoint> checkpoint;  ///< nullopt: the run has no checkpoint
  std::vector<DamagedSave> damaged;           ///< damaged checkpoints that are newer, the newest first
};

/// True if checkpoint.on_damage lets the run resume from an older checkpoint when the newest is damaged.
bool goes_back_behind_damage(const Config& config);

/// Checks the manifests and, if the run may resume from an older checkpoint, the sizes and headers of the
/// files; the data are checked when they are read. Throws DamagedCheckpoint when all checkpoints are damaged,
/// or when the newest is and no older one may be used.
NewestCheckpoint newest_checkpoint(const Config& config);

/// Renames a damaged checkpoint with set_checkpoint_aside() and returns a warning that says so.
std::string set_aside(const DamagedSave& damaged);

/// Handles the damage, if any, that this process has found when it read the checkpoint at `path`. If the run
/// may resume from an older checkpoint the call is collective: when any process has found damage, the
/// checkpoint is set aside and a warning is returned; without damage the result is empty. Throws
/// DamagedCheckpoint when the run may not use an older checkpoint or there is none.
std::string leave_behind(const Session& session, const std::string& path,
                         const std::optional<DamagedCheckpoint>& damage);

}  // namespace mtf
