// The checkpoints of a run. They are written in the background from a snapshot of the variables, and kept or
// removed by the rules of section `checkpoint`. With several processes, each one saves the slices that no
// process of a lower rank holds. The constructor, save() and wait() are collective: every process calls them.
//
//   Checkpoints checkpoints(session, variables, state);
//   checkpoints.save(state, {{"test/loss", 0.31}});   // the variables may change afterwards
//   checkpoints.check();                              // rethrows an error of the background thread
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/checkpoint/checkpoint_writer.h"
#include "engine/runtime/variable_store.h"
#include "trainer/checkpoint/interval.h"
#include "trainer/optimizer/slot_begins.h"
#include "trainer/report/metrics.h"
#include "trainer/session/session.h"

namespace mtf {

/// The state of a training run besides its variables.
struct RunState {
  int64_t step = 0;      ///< number of completed steps
  int64_t next_row = 0;  ///< the next row of the stream of training examples
  int64_t tokens = 0;    ///< predicted tokens with weight since step 0; 0 for models that read no texts
  double seconds = 0;    ///< wall-clock time since step 0, over all restarts of the run
  double evaluation_seconds = 0;
  double rate_scale = 1;            ///< factor on the learning rate (train.on_divergence: restore)
  std::optional<double> best;       ///< best value so far of train.patience.metric
  int64_t worse_evaluations = 0;    ///< number of consecutive evaluations without a new best value
  bool evaluation_pending = false;  ///< an evaluation of this step was due when the run was stopped
  std::shared_ptr<const SlotBegins> slot_begins = std::make_shared<SlotBegins>();

  double training_seconds() const { return seconds - evaluation_seconds; }
};

/// Returns the progress of the run, by which intervals are counted.
RunPosition position_of(const Session& session, const RunState& state);

/// Reads the state of a run from the manifest of the directory `checkpoint`. Throws Error (kCheckpoint) when
/// the checkpoint is not of a training run, and DamagedCheckpoint when a value is out of range.
RunState run_state(const Manifest& manifest, const std::string& checkpoint);

/// True if `value` of the metric "DATASET/METRIC" is finite and better than `before`, if there is such a
/// value.
bool is_better(const std::string& metric, double value, const std::optional<double>& before);

/// The value of a metric in the evaluation that belongs to a checkpoint.
struct SavedValue {
  int64_t step = 0;
  double value = 0;
};
/// Returns the values of the checkpoints that have the metric, best first; among equal values the oldest
/// first.
std::vector<SavedValue> best_first(const std::vector<SavedCheckpoint>& saved, const std::string& metric);

/// Returns the directory "checkpoints" in run.model_dir.
std::string checkpoints_directory(const Config& config);

class Checkpoints {
 public:
  /// Removes what an interrupted save has left in the directory. `start` is the state in which the run begins or
  /// resumes.
  Checkpoints(const Session& session, VariableStore& variables, const RunState& start);
  /// Waits for the save in progress.
  ~Checkpoints();
  Checkpoints(const Checkpoints&) = delete;
  Checkpoints& operator=(const Checkpoints&) = delete;

  /// Waits for the previous save, copies the variables, and writes the copy on a background thread. A device
  /// copies while executors continue, up to the first change of a variable. `metrics` are those of an
  /// evaluation at this step, named DATASET/METRIC. Throws the error of the previous save.
  void save(const RunState& state, const Metrics& metrics);
  /// True if an evaluation with these metrics is among the best ones that checkpoint.keep_best keeps.
  bool is_best(const Metrics& metrics) const;
  /// Throws Error if the last save has failed. It does not wait.
  void check();
  /// Waits until all processes have finished the save in progress. Throws Error if it has failed or a process
  /// is lost.
  void wait();

 private:
  /// A variable, or a rectangular block of one, that this process saves.
  struct Piece {
    const Variable* variable;
    std::vector<int64_t> begin;  ///< empty: the whole variable
    Shape shape;
    std::vector<VariableStore::StoredSlice> slices;  ///< their `begin` is relative to the piece
    std::vector<std::byte> bytes;                    ///< a copy of the slices, unless copy_ has it
    std::span<const std::byte> values;               ///< the copy
  };

  std::vector<SavedValue> saved_values() const;
  void add_pieces(const Variable& variable);
  void copy_variables();
  void await_copy();
  template <class DataOf>
  static void assemble(Piece& piece, const DataOf& data_of);
  bool is_written(std::chrono::milliseconds patience) const;
  void write(const Manifest& manifest, const std::string& name);
  WrittenPart write_pieces(CheckpointWriter& writer) const;
  void remove_old();

  const Session& session_;
  const CheckpointOptions& options_;
  VariableStore& variables_;
  const std::string directory_;
  const std::string config_;  ///< the resolved configuration, as YAML
  IntervalClock keep_clock_;
  std::vector<SavedValue> best_;  ///< the checkpoints' values of checkpoint.keep_best.metric
  std::vector<Piece> snapshot_;
  std::shared_ptr<HostCopy> copy_;  ///< copies all slices of the snapshot from a device; null on the host
  int64_t saves_ = 0;               ///< number of saves begun so far
  bool in_hand_ = false;            ///< a save has begun that wait() has not waited for yet
  std::future<void> pending_;
};

}  // namespace mtf
