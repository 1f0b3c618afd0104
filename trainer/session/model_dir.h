// Functions on the directory of a run: its lock, its config.yaml, and checks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/file.h"
#include "engine/comm/process/process_group.h"
#include "trainer/config/config.h"

namespace mtf {

/// Returns the path of `name` in run.model_dir.
std::string in_model_dir(const Config& config, const std::string& name);

/// Returns the content of a file; empty if it cannot be read.
std::string read_text(const std::string& path);

/// True if the directory holds a run, which has a config.yaml. Reports a path that is no directory, a
/// directory with a run's files but without configuration, links to directories that are not there, and links,
/// pipes or directories in place of files to which a run appends: they may lead anywhere.
bool holds_run(const Config& config, Diagnostics& diagnostics);

/// True if the file `path` is one by which the run is continued or reported: in run.model_dir a configuration, a log, numbers,
/// what the data have in common or a vocabulary, or any file in a checkpoint.
bool is_record_of_run(const Config& config, const std::string& path);

/// A lock that makes this process the only one that writes into a run's directory.
class ModelDirLock {
 public:
  /// Creates the directory if it does not exist; the destructor removes it if it is empty. If another process
  /// has the lock, waits some seconds for it, since that process may have been killed and still be exiting.
  /// Throws Error (kSystem).
  explicit ModelDirLock(const Config& config);
  ~ModelDirLock();
  ModelDirLock(const ModelDirLock&) = delete;
  ModelDirLock& operator=(const ModelDirLock&) = delete;

  /// Says that the file system has no locks, so that nothing keeps others away; empty if it has.
  const std::string& warning() const { return warning_; }

 private:
  MadeDirectory directory_;
  int descriptor_;
  std::string warning_;
};

/// Checks that all processes of the run share the existing directory of process 0: each writes a file into
/// it, which process 0 reads. The call is collective. Throws Error (kSystem), which names the processes that
/// do not share it.
void check_model_dir_is_shared(const Config& config, ProcessGroup& processes);

/// Atomically writes config.yaml, the resolved configuration. If the run was trained until `step` with
/// another configuration (`trained_with`, or if that is empty the existing file), that one is first saved as
/// config.step-N.yaml, N = `step`. An existing config.step-N.yaml is kept, since nothing that was trained
/// after it remains. Throws Error (kSystem).
void write_config(const Config& config, int64_t step, const std::string& trained_with);

/// True if the run has begun to save checkpoints.
bool has_checkpoints(const Config& config);

/// The file of what the data of a run have in common: Source::preparation() of its training data.
inline constexpr std::string_view kPreparationFile = "data.json";
/// Returns the content of that file in run.model_dir; empty where there is none, or when a run begins that has no
/// checkpoint yet.
std::string stored_preparation(const Config& config);
/// Writes the file, unless `preparation` is empty. Throws Error (kSystem).
void write_preparation(const Config& config, const std::string& preparation);

/// Returns an Error (kSystem) if run.model_dir no longer leads to `held`, the directory of the run.
std::optional<Error> model_dir_error(const Config& config, const HeldDirectory& held);

/// Returns the name of the file to which a failing process of this rank writes its last collectives.
std::string flight_record_name(int rank);
/// Removes the files flight.rank-N.json that failed processes of this run have left. Errors are ignored.
void remove_flight_records(const Config& config);

}  // namespace mtf
