// The checkpoint that a run goes on from: the newest, or where that is damaged what checkpoint.on_damage
// says.
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

/// A checkpoint that cannot be read, and why.
struct DamagedSave {
  SavedCheckpoint checkpoint;
  std::string reason;
};

struct NewestCheckpoint {
  std::optional<SavedCheckpoint> checkpoint;  ///< nothing: there is none at all
  std::vector<DamagedSave> damaged;           ///< newer ones, the newest first
};

/// A damaged checkpoint does not end the run where there is one before it: checkpoint.on_damage.
bool goes_back_behind_damage(const Config& config);

/// Looks at the manifest, and where a run may go back also at sizes and headers of the files; the data are
/// checked when they are read. Throws DamagedCheckpoint where the newest is damaged and the run may not go
/// back, or all are.
NewestCheckpoint newest_checkpoint(const Config& config);

/// Takes a damaged checkpoint out of the way (set_checkpoint_aside()); returns a warning that says so.
std::string set_aside(const DamagedSave& damaged);

/// What comes of the `damage`, if any, that this process has found when it read the checkpoint at `path`.
/// Where the run may go back all processes call it together: the checkpoint is set aside if one has found
/// some, and a warning says so; empty: nobody has. Throws DamagedCheckpoint where the run may not go back, or
/// there is none before it.
std::string leave_behind(const Session& session, const std::string& path,
                         const std::optional<DamagedCheckpoint>& damage);

}  // namespace mtf
