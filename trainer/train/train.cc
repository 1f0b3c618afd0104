#include "trainer/train/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <deque>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/counted.h"
#include "engine/base/signals.h"
#include "trainer/checkpoint/checkpoints.h"
#include "trainer/checkpoint/restore.h"
#include "trainer/optimizer/averages.h"
#include "trainer/parameter_server/worker.h"
#include "trainer/session/algorithm_file.h"
#include "trainer/session/device_notes.h"
#include "trainer/session/model_dir.h"
#include "trainer/session/profiler.h"
#include "trainer/session/same_run.h"
#include "trainer/steps/agreement.h"
#include "trainer/steps/step_runner.h"
#include "trainer/steps/stop.h"
#include "trainer/train/counter_lines.h"
#include "trainer/train/divergence.h"
#include "trainer/train/layer_reports.h"
#include "trainer/train/run_log.h"
#include "trainer/train/train_plan.h"
#include "trainer/train/utilization.h"

namespace mtf {
namespace {

using Clock = std::chrono::steady_clock;

/// The largest number of restarts (train.on_divergence: restore), each at half the learning rate, that do not
/// get past the step that diverged.
constexpr int64_t kMostRestored = 8;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Returns the variables that this process stores. With parameter servers, a worker that is not the chief has
/// only those that its programs read.
std::vector<ProgramVariable> variables_of(const Session& session, const TrainPlan& plan) {
  std::vector<ProgramVariable> variables = plan.program.variables;
  if (!plan.servers || session.processes->is_first()) return variables;
  std::erase_if(variables, [&](const ProgramVariable& v) {
    const auto is_same = [&](const ProgramVariable& other) { return other.variable.name == v.variable.name; };
    const bool is_evaluated = plan.evaluation && std::ranges::any_of(plan.evaluation->variables, is_same);
    return v.variable.kind == Variable::Kind::kSlot && !is_evaluated;
  });
  return variables;
}

std::unique_ptr<StepRunner> make_steps(const Session& session, const TrainPlan& plan, Executor& executor,
                                       VariableStore& variables) {
  return plan.servers ? steps_with_servers(session, *plan.servers, executor, variables)
                      : local_steps(session, executor, plan.step.scalars);
}

class Trainer {
 public:
  Trainer(const Session& session, TrainPlan plan);

  void report_start(const Diagnostics& diagnostics);
  /// Trains and returns the exit code. Errors are also written to log.txt.
  int run();

 private:
  void go_on();
  bool restored(const std::string& path, Restore what);
  void restore(const std::string& checkpoint, Restore what);
  void initialize();
  void load_teacher();
  void check_directory() const;
  double clock() const;
  void agree_on(const Control& control);
  void start_clocks();
  void loop();
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
  void save();
  void report_end();
  bool finished() const { return !end_.empty(); }
  bool complete() const { return finished() && !state_.evaluation_pending; }
  bool stopped() const { return signal_ != 0; }
  RunPosition position() const { return position(state_); }
  RunPosition position(const RunState& state) const;
  bool counts_tokens() const { return executor_.program().output("tokens") != kNoValue; }
  static double training_seconds(const RunState& state) { return state.seconds - state.evaluation_seconds; }
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
  Clock::time_point start_;
  double seconds_before_ = 0;  ///< state_.seconds at start_
  int64_t first_step_ = 0;     ///< step at which this process started
  int64_t first_tokens_ = 0;
  double first_seconds_ = 0;  ///< training_seconds(state_) at first_step_
  bool has_teacher_ = false;  ///< the constants of the teacher are set
  int signal_ = 0;            ///< signal that asks the run to stop; 0: none
  int64_t logged_step_ = 0;
  int64_t logged_tokens_ = 0;
  double logged_seconds_ = 0;
  int64_t memory_bytes_ = 0;  ///< memory at the last line of the log
  int64_t restored_ = 0;      ///< number of restarts since diverged_at_ was first reached
  int64_t diverged_at_ = -1;
  std::string end_;  ///< the limit that ended the run; empty while it continues
};

Trainer::Trainer(const Session& session, TrainPlan plan)
    : session_(session),
      config_(session.config),
      plan_(std::move(plan)),
      directory_(config_.run.model_dir.text),
      algorithms_(tuned_by_file(session)),
      variables_(*session.backend, plan_.program.mesh, variables_of(session, plan_),
                 variable_store_options(session)),
      executor_(plan_.servers ? plan_.servers->program : std::move(plan_.program), *session.backend,
                variables_, executor_options(session)),
      runner_(make_steps(session, plan_, executor_, variables_)),
      agreement_(session.processes->communicator(), [this] { return clock(); }),
      peak_flops_(peak_flops(session)),
      profiler_(session, [this](const std::string& line) { log_->info(line); }) {
  if (plan_.evaluation) {
    evaluator_ =
        std::make_unique<Evaluator>(session, plan_.evaluation_sets, std::move(*plan_.evaluation), variables_);
  }
  if (plan_.continuation && plan_.continuation->checkpoint) {
    go_on();
  } else {
    initialize();
    if (plan_.continuation)
      notes_.push_back(fmt::format("{} holds no checkpoint: starts at step 0", config_.run.model_dir.text));
  }
  if (session.processes->is_first()) {
    write_config(config_, state_.step, plan_.continuation ? plan_.continuation->trained_with : std::string());
    write_preparation(config_, session_.preparation);
  }
  log_.emplace(config_, state_, session.processes->rank());
  checkpoints_.emplace(session_, variables_, state_);
}

/// Resumes from the checkpoint of the plan or, if that turns out to be damaged, from an older one.
void Trainer::go_on() {
  if (session_.processes->is_first()) {
    for (const DamagedSave& damaged : plan_.continuation->damaged) damage_.push_back(set_aside(damaged));
  }
  for (;;) {
    const Continuation& old = *plan_.continuation;
    if (restored(old.checkpoint->path, old.architecture_changed ? Restore::kPresent : Restore::kAll)) break;
    Diagnostics diagnostics;
    plan_.continuation = older_continuation(config_);
    check_vocabulary(session_, *plan_.continuation, diagnostics);
    diagnostics.throw_if_errors();
  }
  const std::vector<std::string>& changes = plan_.continuation->changes;
  notes_.insert(notes_.end(), changes.begin(), changes.end());
}

/// Restores a checkpoint. False if a process has found it damaged; it is then set aside.
bool Trainer::restored(const std::string& path, Restore what) {
  const size_t notes = notes_.size();
  std::optional<DamagedCheckpoint> damage;
  try {
    restore(path, what);
  } catch (const DamagedCheckpoint& error) {
    damage = error;
  }
  const std::string warning = leave_behind(session_, path, damage);
  if (warning.empty()) return true;
  damage_.push_back(warning);
  notes_.resize(notes);
  return false;
}

/// Restores the variables and the run's state from `checkpoint`.
void Trainer::restore(const std::string& checkpoint, Restore what) {
  CheckpointReader reader(checkpoint);
  const Manifest& manifest = reader.manifest();
  state_ = run_state(manifest, checkpoint);
  variables_.initialize(static_cast<uint64_t>(config_.run.seed));
  load_teacher();
  const std::vector<std::string> kept = restore_variables(reader, variables_, what);
  std::string note = fmt::format("continues after step {} of {}", state_.step, config_.run.model_dir.text);
  if (const std::string mesh = session_.layouts.mesh.to_string(); mesh != manifest.mesh)
    note += fmt::format(", saved on {}", manifest.mesh);
  if (const std::string here = session_.backend->instruction_set(); here != manifest.instruction_set)
    note += fmt::format(", saved with {} (here {}: equal up to rounding)", manifest.instruction_set, here);
  notes_.push_back(note);
  if (!kept.empty())
    notes_.push_back(fmt::format("not in the checkpoint, so with initial values: {}", fmt::join(kept, ", ")));
}

void Trainer::initialize() {
  state_ = {};
  variables_.initialize(static_cast<uint64_t>(config_.run.seed));
  const InitOptions& init = config_.checkpoint.init;
  if (!init.path.empty()) notes_.push_back(initialize_weights(init, variables_));
  load_teacher();
  start_averages(variables_);
}

/// Sets the constants of the teacher. A step does not change them.
void Trainer::load_teacher() {
  const std::optional<Teacher>& teacher = session_.teacher;
  if (!teacher || has_teacher_) return;
  restore_constants(teacher->path, std::string(kTeacher) + "/", variables_);
  notes_.push_back(fmt::format("the teacher is {}", teacher->path));
  has_teacher_ = true;
}

/// Returns the seconds since step 0, by the clock of this process.
double Trainer::clock() const { return seconds_before_ + seconds_since(start_); }

void Trainer::agree_on(const Control& control) {
  state_.seconds = control.seconds;
  signal_ = control.signal;
}

void Trainer::start_clocks() {
  const RunPosition at = position();
  steps_ = planned_steps(session_, state_.step, state_.next_row);
  log_clock_.emplace(config_.train.log_every, at);
  evaluate_clock_.emplace(config_.evaluate.every, at);
  save_clock_.emplace(config_.checkpoint.every, at);
  start_ = Clock::now();
  seconds_before_ = state_.seconds;
  first_step_ = logged_step_ = state_.step;
  first_tokens_ = logged_tokens_ = state_.tokens;
  first_seconds_ = logged_seconds_ = training_seconds(state_);
  begun_.clear();
}

RunPosition Trainer::position(const RunState& state) const {
  const double epochs =
      static_cast<double>(state.next_row) / static_cast<double>(session_.train_data->examples());
  return {state.step, epochs, training_seconds(state)};
}

void Trainer::report_start(const Diagnostics& diagnostics) {
  for (const Problem& warning : diagnostics.warnings()) log_->warning(warning.to_string());
  for (const std::string& warning : plan_.step.warnings) log_->warning(warning);
  for (const std::string& warning : std::exchange(damage_, {})) log_->warning(warning);
  for (const std::string& note : diagnostics.notes()) log_->info(note);
  for (const std::string& note : notes_) log_->info(note);
  if (!plan_.choice.empty()) log_->info(plan_.choice);
  for (const std::string& note : plan_.step.notes) log_->info(note);
  int64_t parameters = 0;
  for (const ProgramVariable& v : executor_.program().variables) {
    if (v.variable.kind == Variable::Kind::kWeight) parameters += v.variable.shape.size();
  }
  const Mesh& mesh = executor_.program().mesh;
  const ProcessGroup& processes = *session_.processes;
  if (processes.size() > 1) log_->info(processes.launch().source);
  show_device_notes(session_, log_->messages());
  if (plan_.servers) {
    for (const std::string& line : plan_.servers->places) log_->info(line);
  }
  for (const std::string& line : plan_.memory) log_->record(line);
  log_->info(fmt::format("{}, {}, batch {}, {}, {}, {} per position", counted(parameters, "parameter"),
                         counted(session_.train_data->examples(), "example"),
                         train_batch_size(config_, session_.layouts),
                         mesh.size() == 1 ? "1 position" : fmt::format("mesh {}", mesh.to_string()),
                         counted(thread_count(config_), "thread"),
                         bytes_text(static_cast<double>(executor_.memory().position().total()))));
}

int Trainer::run() {
  const StopSignals signals;
  try {
    loop();
    checkpoints_->wait();
    check_directory();
    profiler_.finish();
    for (const std::string& line : runner_->report()) log_->info(line);
    runner_->leave();
  } catch (const Error& error) {
    log_->finish_progress();
    // A failed write may only be the consequence of a removed directory.
    const bool may_follow = error.kind() == ErrorKind::kSystem;
    const Error cause = (may_follow ? model_dir_error(config_, directory_) : std::nullopt).value_or(error);
    log_->record(cause.what());
    throw cause;
  }
  report_end();
  if (complete() && session_.processes->is_first()) remove_flight_records(config_);
  return complete() ? 0 : 128 + signal_;
}

void Trainer::loop() {
  start_clocks();
  runner_->start(state_, steps_);
  if (state_.evaluation_pending) {
    evaluate();
    save();
  }
  end_ = reached_limit(session_, state_);
  signal_ = agreement_.now().signal;
  while (!finished() && !stopped()) {
    if (!advance()) runner_->start(state_, steps_);
  }
}

/// Begins a step, and ends steps with everything that is due after them: all but those with which the runner
/// may be ahead. False if the run was set back to a checkpoint.
bool Trainer::advance() {
  profiler_.begin_step();
  const int64_t step = state_.step + static_cast<int64_t>(begun_.size()) + 1;
  const ProfileSpan whole = span("step", ProfileCategory::kStep, step);
  const Batch* batch = runner_->next(state_);
  agreement_.begin();
  if (batch == nullptr) {
    conclude(agreement_.end());
    return true;
  }
  BegunStep& begun = begun_.emplace_back(BegunStep{begun_.empty() ? state_ : begun_.back().after, {}});
  runner_->run(*batch, begun.after);
  ++begun.after.step;
  begun.after.next_row = batch->next_row;
  begun.control = agreement_.end();
  begun.after.seconds = begun.control.seconds;
  const size_t ahead = is_pause() ? 0 : static_cast<size_t>(runner_->ahead());
  while (begun_.size() > ahead) {
    if (!end_step()) return false;
  }
  return true;
}

/// True if more than a line of the log is due after the last step that was begun: its results, and the variables
/// as it leaves them, are needed before another step begins.
bool Trainer::is_pause() const {
  const BegunStep& last = begun_.back();
  const RunPosition at = position(last.after);
  return last.control.signal != 0 || evaluate_clock_->will_be_due(at) || save_clock_->will_be_due(at) ||
         !reached_limit(session_, last.after).empty();
}

/// Waits for the first of the steps that were begun and does what is due after it. False if the run was set back
/// to a checkpoint.
bool Trainer::end_step() {
  runner_->take_results();
  if (runner_->skipped() > 0 && diverged()) return false;
  runner_->count(state_);
  const Control control = begun_.front().control;
  begun_.pop_front();
  conclude(control);
  return true;
}

/// Does what is due in state_.
void Trainer::conclude(const Control& control) {
  agree_on(control);
  checkpoints_->check();
  end_ = reached_limit(session_, state_);
  evaluated_.clear();
  if (finished()) runner_->hold(state_);
  if (evaluate_clock_->due(position()) || finished()) evaluate();
  if (!finished()) end_ = reached_limit(session_, state_);  // patience
  log(finished());
  if (save_clock_->due(position()) || finished() || stopped() || checkpoints_->is_best(evaluated_)) save();
}

/// Throws Error in process 0 if run.model_dir no longer leads to the run's directory.
void Trainer::check_directory() const {
  if (!session_.processes->is_first()) return;
  if (std::optional<Error> gone = model_dir_error(config_, directory_)) throw std::move(*gone);
}

void Trainer::save() {
  check_directory();
  runner_->hold(state_);
  checkpoints_->save(state_, evaluated_);
  if (!finished() && !stopped()) runner_->release();
  evaluated_.clear();
}

/// Handles a step that is not finite and has changed no variables. True if the run was set back to a
/// checkpoint, false if the step is skipped.
bool Trainer::diverged() {
  const std::string what = divergence();
  const int64_t step = state_.step + 1;
  switch (config_.train.on_divergence) {
    case OnDivergence::kSkip:
      if (runner_->skipped() >= diverges_after(config_.train)) break;
      log_->warning(fmt::format("{}; the step is skipped", what));
      return false;
    case OnDivergence::kRestore:
      restored_ = step > diverged_at_ ? 1 : restored_ + 1;
      diverged_at_ = std::max(step, diverged_at_);
      if (restored_ > kMostRestored) break;
      restore_after_divergence(what);
      return true;
    case OnDivergence::kStop:
      break;
  }
  throw Error(
      ErrorKind::kDiverged, what,
      "the weights are those of the step before; try a lower `learning_rate` or `optimizer.clip_norm`");
}

/// Returns a description of the divergence, which is the same in all processes.
std::string Trainer::divergence() {
  return divergence_text(state_.step + 1, runner_->loss(), runner_->grad_norm(),
                         runner_->first_non_finite(state_));
}

void Trainer::restore_after_divergence(const std::string& what) {
  checkpoints_->wait();
  const double scale = state_.rate_scale / 2;
  notes_.clear();
  const double seconds = agreement_.now().seconds;
  for (bool done = false; !done;) {
    const std::vector<SavedCheckpoint> saved = list_checkpoints(checkpoints_directory(config_));
    const std::string path = broadcast(session_.processes->communicator(),
                                       saved.empty() ? "" : saved.back().path, "checkpoint to go back to");
    if (path.empty()) initialize();
    done = path.empty() || restored(path, Restore::kAll);
  }
  state_.rate_scale = scale;
  state_.seconds = std::max(state_.seconds, seconds);
  log_->cut_back(state_);
  start_clocks();
  for (const std::string& warning : std::exchange(damage_, {})) log_->warning(warning);
  log_->warning(
      fmt::format("{}; goes back to step {}, with {:.4g} times the learning rate", what, state_.step, scale));
}

void Trainer::log(bool force) {
  if (log_clock_->due(position()) || force || state_.step == 1) {
    check_directory();
    const double seconds = measured_seconds();
    const double step_seconds = (seconds - logged_seconds_) / static_cast<double>(state_.step - logged_step_);
    const double rate = state_.rate_scale * learning_rate_at(plan_.update, state_.step - 1);
    Metrics line{{"step", state_.step}, {"epoch", position().epochs}, {"examples", state_.next_row}};
    if (counts_tokens()) line.emplace_back("tokens", state_.tokens);
    line.insert(line.end(),
                {{"time", seconds},
                 {"loss", runner_->loss()},
                 {"learning_rate", rate},
                 {"grad_norm", runner_->grad_norm()},
                 {"step_ms", step_seconds * 1000},
                 {"examples_per_second",
                  static_cast<double>(train_batch_size(config_, session_.layouts)) / step_seconds}});
    if (counts_tokens()) {
      line.emplace_back("tokens_per_second",
                        static_cast<double>(state_.tokens - logged_tokens_) / (seconds - logged_seconds_));
    }
    LayerReports reports = layer_reports(executor_.program(), *runner_);
    line.insert(line.end(), reports.numbers.begin(), reports.numbers.end());
    line.emplace_back("model_flops_per_second", plan_.model_flops / step_seconds);
    if (const auto mfu = utilization(step_seconds)) line.emplace_back("mfu", *mfu);
    memory_bytes_ = memory_in_use(*session_.backend);
    line.emplace_back("memory_bytes", memory_bytes_);
    const Metrics more = runner_->metrics();
    line.insert(line.end(), more.begin(), more.end());
    log_->step(line, std::move(reports.lists));
    logged_step_ = state_.step;
    logged_tokens_ = state_.tokens;
    logged_seconds_ = seconds;
  }
  show_new_device_notes(session_, log_->messages());
  show_progress();
}

void Trainer::show_progress() {
  const double seconds = measured_seconds() - first_seconds_;
  const double step_seconds = seconds / static_cast<double>(state_.step - first_step_);
  ProgressState progress{
      .step = state_.step,
      .total = steps_.value_or(0),
      .epoch = position().epochs,
      .loss = runner_->loss(),
      .examples_per_second = static_cast<double>(train_batch_size(config_, session_.layouts)) / step_seconds,
      .utilization = utilization(step_seconds),
      .memory_bytes = memory_bytes_,
      .seconds_left = seconds_left(step_seconds)};
  if (counts_tokens())
    progress.tokens_per_second = static_cast<double>(state_.tokens - first_tokens_) / seconds;
  log_->progress(progress);
}

std::optional<double> Trainer::seconds_left(double step_seconds) const {
  std::optional<double> left;
  if (steps_) left = step_seconds * static_cast<double>(*steps_ - state_.step);
  if (config_.train.time) {
    const double of_time = config_.train.time->seconds - state_.seconds;
    left = std::max(0.0, std::min(left.value_or(of_time), of_time));
  }
  return left;
}

/// Evaluates. A signal postpones the evaluation to the next start of the run.
void Trainer::evaluate() {
  state_.evaluation_pending = false;
  if (!evaluator_) return;
  const ProfileSpan whole = span("evaluation", ProfileCategory::kEvaluation);
  const double begin = agreement_.now().seconds;
  if (!finished()) runner_->fetch_weights();
  const auto results = evaluator_->run(state_.step, [this] {
    signal_ = agreement_.now().signal;
    return stopped();
  });
  if (!results) {
    state_.evaluation_pending = true;
    return;
  }
  check_directory();
  show_new_device_notes(session_, log_->messages());
  for (const Evaluation& evaluation : *results) {
    log_->evaluation(state_.step, evaluation);
    for (const auto& [name, value] : evaluation.metrics)
      evaluated_.emplace_back(evaluation.dataset + "/" + name, value);
  }
  count_evaluation(config_.train, evaluated_, state_);
  agree_on(agreement_.now());
  state_.evaluation_seconds += state_.seconds - begin;
}

void Trainer::report_end() {
  log_->finish_progress();
  show_new_device_notes(session_, log_->messages());
  const std::string where =
      fmt::format("{} step{}, {:.2f} epochs, {}; the run is in {}", state_.step, state_.step == 1 ? "" : "s",
                  position().epochs, duration_text(state_.seconds), config_.run.model_dir.text);
  if (!complete()) {
    log_->info(fmt::format("stopped by {}: {}", signal_ == SIGINT ? "SIGINT" : "SIGTERM", where));
    return;
  }
  log_->info(fmt::format("{} after {}: {}", state_.step > first_step_ ? "finished" : "nothing is left to do",
                         end_, where));
  for (const std::string& line : counter_lines(executor_.counters(), session_.processes->communicator()))
    log_->info(line);
}

/// Returns the checkpoint from which the run resumes: "step N" or "none".
std::string start_of(const TrainPlan& plan) {
  const bool goes_on = plan.continuation && plan.continuation->checkpoint;
  return goes_on ? fmt::format("step {}", plan.continuation->checkpoint->step) : "none";
}

}  // namespace

int train(Session& session, Diagnostics& diagnostics) {
  TrainPlan plan = make_train_plan(session, diagnostics);
  std::optional<ModelDirLock> lock;
  if (session.processes->is_first()) lock.emplace(session.config);
  const bool goes_back = goes_back_behind_damage(session.config);
  check_same_run(session, programs_of(plan),
                 {{"checkpoint that it goes on from", start_of(plan)},
                  {"choice at a damaged checkpoint", goes_back ? "the one before" : "failure"}});
  check_model_dir_is_shared(session.config, *session.processes);
  Trainer trainer(session, std::move(plan));
  trainer.report_start(diagnostics);
  return trainer.run();
}

}  // namespace mtf
