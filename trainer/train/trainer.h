// A training run in a process: its state, and the loop over steps with logging, evaluation and checkpoints.
//
//   Trainer trainer(session, make_train_plan(session, diagnostics));
//   trainer.report_start(diagnostics);
//   return trainer.run();
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/checkpoint/checkpoints.h"
#include "trainer/session/algorithm_file.h"
#include "trainer/session/model_dir.h"
#include "trainer/session/profiler.h"
#include "trainer/steps/agreement.h"
#include "trainer/steps/step_runner.h"
#include "trainer/train/run_log.h"
#include "trainer/train/train_plan.h"

namespace mtf {

/// Not copied or moved. The session must outlive it.
class Trainer {
 public:
  Trainer(const Session& session, TrainPlan plan);

  void report_start(const Diagnostics& diagnostics);
  /// Trains and returns the exit code. Errors are also written to log.txt.
  int run();

 private:
  void go_on();
  bool restored(const std::string& path);
  std::vector<std::string> restore(const std::string& checkpoint);
  void take_slot_begins(const std::string& checkpoint);
  void initialize();
  void load_teacher();
  void check_directory() const;
  double clock() const;
  void agree_on(const Control& control);
  void start_clocks();
  void loop();
  bool may_wait() const;
  std::optional<Control> await_batch();
  bool stop_at(const Control& control);
  bool advance();
  bool is_pause() const;
  bool end_step();
  void conclude(const Control& control);
  bool diverged();
  std::string divergence();
  void restore_after_divergence(const std::string& what);
  void log(bool force);
  void show_progress();
  void evaluate();
  bool all_processes_know(const std::exception& thrown) const;
  void save();
  [[noreturn]] void fail_evaluation();
  void report_end();
  bool finished() const { return !end_.empty(); }
  bool complete() const { return finished() && !state_.evaluation_pending; }
  bool stopped() const { return signal_ != 0; }
  RunPosition position() const { return position_of(session_, state_); }
  bool counts_tokens() const { return executor_.program().output("tokens") != kNoValue; }
  /// The current training time by the clock of this process, for reports but not for decisions.
  double measured_seconds() const { return clock() - state_.evaluation_seconds; }
  std::optional<double> seconds_left(double step_seconds) const;

  ProfileSpan span(std::string_view name, ProfileCategory category, int64_t step = -1) const {
    return span_on(session_.profile.get(), kMainTrack, name, category, step);
  }
  /// The model-FLOPs utilization; nullopt if the devices' peak is not known.
  std::optional<double> utilization(double step_seconds) const {
    return peak_flops_ ? std::optional(plan_.model_flops / step_seconds / *peak_flops_) : std::nullopt;
  }

  /// A step that was begun: devices may still be computing it.
  struct BegunStep {
    RunState after;  ///< state_ after it, but for the tokens
    Control control;
  };

  const Session& session_;
  const Config& config_;
  TrainPlan plan_;
  RunState state_;                   ///< after the last step whose results are known
  std::deque<BegunStep> begun_;      ///< the steps after it
  std::optional<int64_t> steps_;     ///< number of steps of the whole run, if it is known
  std::vector<std::string> notes_;   ///< notes for the start of the log
  std::vector<std::string> damage_;  ///< warnings on damaged checkpoints, for the log
  const HeldDirectory directory_;    ///< run.model_dir
  const std::unique_ptr<AlgorithmFile> algorithms_;
  VariableStore variables_;
  Executor executor_;
  std::unique_ptr<StepRunner> runner_;
  Agreement agreement_;
  const std::optional<double> peak_flops_;  ///< peak FLOP/s of all devices
  std::unique_ptr<Evaluator> evaluator_;
  std::optional<RunLog> log_;
  Profiler profiler_;
  std::optional<Checkpoints> checkpoints_;
  Metrics evaluated_;  ///< the metrics DATASET/METRIC of an evaluation at this step

  std::optional<IntervalClock> log_clock_, evaluate_clock_, save_clock_;
  std::chrono::steady_clock::time_point start_;
  double seconds_before_ = 0;  ///< state_.seconds at start_
  int64_t first_step_ = 0;     ///< step at which this process started
  int64_t saved_step_ = -1;    ///< step that was saved last
  int64_t first_tokens_ = 0;
  double first_seconds_ = 0;  ///< state_.training_seconds() at first_step_
  bool has_teacher_ = false;  ///< the constants of the teacher are set
  int signal_ = 0;            ///< signal that asks the run to stop; 0: none
  int64_t logged_step_ = 0;
  int64_t logged_tokens_ = 0;
  double logged_seconds_ = 0;
  int64_t memory_bytes_ = 0;   ///< memory at the last line of the log, or a moment before
  double looked_seconds_ = 0;  ///< when it was that, and the directory was there
  int64_t restored_ = 0;       ///< number of restarts since diverged_at_ was first reached
  int64_t diverged_at_ = -1;
  std::string end_;                        ///< the limit that ended the run; empty while it continues
  std::optional<Error> evaluation_error_;  ///< the error of an evaluation at this step, in all processes
};

}  // namespace mtf
