// A run that goes on in a directory that holds one already: from which checkpoint, and whether the
// configuration allows it (what may change is marked in the schema).
//
//   if (const std::optional<Continuation> old = find_continuation(config, diagnostics)) ...
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/checkpoint/checkpoint.h"
#include "trainer/config.h"

namespace mtf {

struct Continuation {
  std::optional<SavedCheckpoint> checkpoint;  ///< the newest; nothing: the run begins again at step 0
  std::vector<std::string> changes;           ///< what is different now, one line each
  bool architecture_changed = false;          ///< a changed model or optimizer is allowed by run.allow_change
};

/// `path` is the key `section` or one in it.
bool is_below(std::string_view path, std::string_view section);
/// run.allow_change names the key `path` or a section above it.
bool is_allowed_change(const Config& config, std::string_view path);

/// Nothing: run.model_dir holds no run. Changes that are not allowed go to `diagnostics` with both values,
/// and so does run.on_existing: fail. A batch size that depends on the layout becomes that of the old run.
std::optional<Continuation> find_continuation(Config& config, Diagnostics& diagnostics);

}  // namespace mtf
