// The directory of a run: who may write into it, and its config.yaml.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/base/file.h"
#include "engine/comm/process/process_group.h"
#include "trainer/config/config.h"

namespace mtf {

/// run.model_dir/`name`.
std::string in_model_dir(const Config& config, const std::string& name);

/// What a file holds; empty where it cannot be read.
std::string read_text(const std::string& path);

/// True when the directory holds a run (a config.yaml). Reports a path that is no directory, or a directory
/// with a run's files but without its configuration, or with links, pipes or directories in the place of
/// files that a run appends to and cuts: they may lead anywhere.
bool holds_run(const Config& config, Diagnostics& diagnostics);

/// The only process that writes into a run's directory, for as long as it lives.
class ModelDirLock {
 public:
  /// Creates the directory if need be, and takes it away again when nothing was written into it. A lock that
  /// another process has is waited for some seconds: that one may have been killed and not be gone yet.
  /// Throws Error (kSystem).
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

/// Writes config.yaml, the resolved configuration, so that the file is always whole. What the run was trained
/// with until `step` and says something else, `trained_with` or, where that is not known, the file, is first
/// kept as config.step-N.yaml, N = `step` (where there is none yet: what came after it trained nothing that
/// is left). Throws Error (kSystem).
void write_config(const Config& config, int64_t step, const std::string& trained_with);

/// An Error (kSystem) when run.model_dir no longer leads to the directory of the run, `held`.
std::optional<Error> model_dir_error(const Config& config, const HeldDirectory& held);

/// File in which a process of this rank that fails leaves its last collectives.
std::string flight_record_name(int rank);
/// Removes what processes of this run left that failed (flight.rank-N.json). Throws nothing.
void remove_flight_records(const Config& config);

}  // namespace mtf
