// The checkpoints of a run: saved in the background from a snapshot, kept by the rules of section
// `checkpoint`. Of several processes each saves the slices that no process before it holds; they make the
// same calls, but check().
//
//   Checkpoints checkpoints(session, variables, state);
//   checkpoints.save(state, {{"test/loss", 0.31}});   // returns when the snapshot is taken
//   checkpoints.check();                              // rethrows what went wrong in the background
#pragma once

#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "engine/checkpoint/checkpoint_writer.h"
#include "engine/runtime/variable_store.h"
#include "trainer/checkpoint/interval.h"
#include "trainer/report/metrics.h"
#include "trainer/session/session.h"

namespace mtf {

/// Where a run stands, besides its variables.
struct RunState {
  int64_t step = 0;      ///< steps done
  int64_t next_row = 0;  ///< of the stream of training examples
  int64_t tokens = 0;    ///< predicted tokens that counted since step 0; 0 where the model reads no texts
  double seconds = 0;    ///< since step 0, all processes of the run together
  double evaluation_seconds = 0;
  double rate_scale = 1;            ///< factor on the learning rate (train.on_divergence: restore)
  std::optional<double> best;       ///< value of train.patience.metric
  int64_t worse_evaluations = 0;    ///< in a row, since `best`
  bool evaluation_pending = false;  ///< an evaluation of this step was due when the run was stopped
};

/// `checkpoint`: the directory that the manifest is of. Throws Error (kCheckpoint) when it is not that of a
/// training run, DamagedCheckpoint where no run can stand.
RunState run_state(const Manifest& manifest, const std::string& checkpoint);

/// `value` of a metric ("DATASET/METRIC") is finite and better than the one before, if there is one.
bool is_better(const std::string& metric, double value, const std::optional<double>& before);

/// The value that a checkpoint's evaluation has of a metric.
struct SavedValue {
  int64_t step = 0;
  double value = 0;
};
/// Of those that have one, the best first; of equals the oldest.
std::vector<SavedValue> best_first(const std::vector<SavedCheckpoint>& saved, const std::string& metric);

/// run.model_dir/checkpoints.
std::string checkpoints_directory(const Config& config);

class Checkpoints {
 public:
  /// `start`: where the run begins or goes on.
  Checkpoints(const Session& session, const VariableStore& variables, const RunState& start);
  /// Waits for the save in hand.
  ~Checkpoints();
  Checkpoints(const Checkpoints&) = delete;
  Checkpoints& operator=(const Checkpoints&) = delete;

  /// Copies the variables and writes them on a thread of its own, after the save before has ended. `metrics`:
  /// of an evaluation at this step, as DATASET/METRIC. Throws what went wrong in the save before.
  void save(const RunState& state, const Metrics& metrics);
  /// True when an evaluation is among the best that checkpoint.keep_best asks for.
  bool is_best(const Metrics& metrics) const;
  /// Throws Error when the last save has failed; does not wait.
  void check();
  /// Waits for the save in hand; throws Error when it has failed, or when a process is lost.
  void wait();

 private:
  /// A variable, or one rectangle of it, that this process saves.
  struct Piece {
    const Variable* variable;
    std::vector<int64_t> begin;  ///< empty: the whole variable
    Shape shape;
    std::vector<VariableStore::StoredSlice> slices;  ///< `begin` of each is within the piece
    std::vector<std::byte> bytes;                    ///< a copy of them
  };

  std::vector<SavedValue> saved_values() const;
  void add_pieces(const Variable& variable);
  void copy_variables();
  bool is_written(std::chrono::milliseconds patience) const;
  void write(const Manifest& manifest, const std::string& name);
  WrittenPart write_pieces(CheckpointWriter& writer) const;
  std::string file_name(const char* stem) const;
  void remove_old();

  RunPosition position(const RunState& state) const;

  const Session& session_;
  const CheckpointOptions& options_;
  const VariableStore& variables_;
  const std::string directory_;
  const std::string config_;  ///< resolved
  IntervalClock keep_clock_;
  std::vector<SavedValue> best_;  ///< values of checkpoint.keep_best.metric among the checkpoints
  std::vector<Piece> snapshot_;
  std::vector<std::byte> device_bytes_;  ///< of the slice that is copied, where it is in a device's memory
  int64_t saves_ = 0;                    ///< begun so far
  bool in_hand_ = false;                 ///< a save that was not waited for
  std::future<void> pending_;
};

}  // namespace mtf
