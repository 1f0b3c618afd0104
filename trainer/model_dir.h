// The directory of a run: who may write into it, and its config.yaml.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/checkpoint/file.h"
#include "engine/comm/process/process_group.h"
#include "trainer/config.h"

namespace mtf {

/// run.model_dir/`name`.
std::string in_model_dir(const Config& config, const std::string& name);

/// True when the directory holds a run (a config.yaml). Reports a path that is no directory, or a directory
/// with a run's files but without its configuration.
bool holds_run(const Config& config, Diagnostics& diagnostics);

/// The only process that writes into a run's directory, for as long as it lives.
class ModelDirLock {
 public:
  /// Creates the directory if need be, and takes it away again when nothing was written into it. Throws Error
  /// (kSystem) when that fails or another process has the lock.
  explicit ModelDirLock(const Config& config);
  ~ModelDirLock();
  ModelDirLock(const ModelDirLock&) = delete;
  ModelDirLock& operator=(const ModelDirLock&) = delete;

 private:
  MadeDirectory directory_;
  int descriptor_;
};

/// Makes sure that all processes of the run see the directory, which is there, of process 0: each leaves a
/// file in it that process 0 looks for. They all call it. Throws Error (kSystem) that names those that do
/// not.
void check_model_dir_is_shared(const Config& config, ProcessGroup& processes);

/// Writes config.yaml, the resolved configuration, so that the file is always whole. One that says something
/// else is first kept as config.step-N.yaml, N = `step` (where there is none yet: what came after it trained
/// nothing that is left). Throws Error (kSystem).
void write_config(const Config& config, int64_t step);

}  // namespace mtf
