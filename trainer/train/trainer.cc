#include "trainer/train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/base/exception.h"
#include "engine/base/seconds_since.h"
#include "engine/base/signals.h"
#include "trainer/parameter_server/worker.h"
#include "trainer/session/device_notes.h"
#include "trainer/steps/stop.h"
#include "trainer/train/utilization.h"

namespace mtf {
namespace {

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

}  // namespace

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
    evaluator_ = std::make_unique<Evaluator>(session, plan_.evaluation_sets, std::move(*plan_.evaluation),
                                             variables_, std::move(plan_.conversions));
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
  start_ = std::chrono::steady_clock::now();
  seconds_before_ = state_.seconds;
  first_step_ = logged_step_ = state_.step;
  first_tokens_ = logged_tokens_ = state_.tokens;
  first_seconds_ = logged_seconds_ = state_.training_seconds();
  looked_seconds_ = 0;
  begun_.clear();
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
  } catch (const std::exception& thrown) {
    const Error error = as_error(thrown, "mtf-train");
    log_->finish_progress();
    // A failed write may only be the consequence of a removed directory.
    const bool may_follow = error.kind() == ErrorKind::kSystem;
    const Error cause = (may_follow ? model_dir_error(config_, directory_) : std::nullopt).value_or(error);
    log_->record_error(cause.what());
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
    if (evaluation_error_) throw *evaluation_error_;
    save();
  }
  end_ = reached_limit(session_, state_);
  signal_ = agreement_.now().signal;
  while (!finished() && !stopped()) {
    if (!advance()) runner_->start(state_, steps_);
  }
}

/// True if the batch of the next step may not be there for a long while: the first one, and one that begins an epoch whose
/// examples are made anew.
bool Trainer::may_wait() const {
  const RunState& before = begun_.empty() ? state_ : begun_.back().after;
  if (before.step == first_step_) return true;
  const int64_t end = before.next_row + train_batch_size(config_, session_.layouts);
  for (int64_t row = before.next_row; row < end; ++row) {
    if (session_.train_data->begins_made_epoch(row)) return true;
  }
  return false;
}

/// Waits until all processes have the batch of the next step. Returns a signal that comes meanwhile.
std::optional<Control> Trainer::await_batch() {
  constexpr std::chrono::milliseconds kPatience(100);
  const bool several = session_.processes->size() > 1;
  if (several && !may_wait()) return std::nullopt;
  const ProfileSpan waiting = wait_for_data(session_);
  for (;;) {
    bool ready = runner_->wait(kPatience);
    if (several) {
      const std::vector<std::string> all =
          all_gather(session_.processes->communicator(), ready ? "ready" : "", "batches that are ready");
      ready = std::ranges::none_of(all, &std::string::empty);
    }
    if (ready) return std::nullopt;
    if (const Control control = agreement_.now(); control.signal != 0) return control;
  }
}

/// Ends the steps that were begun and saves, without another step. False if the run was set back to a checkpoint.
bool Trainer::stop_at(const Control& control) {
  while (!begun_.empty()) {
    if (!end_step()) return false;
  }
  agree_on(control);
  if (state_.step > first_step_ && state_.step != saved_step_) save();
  return true;
}

/// Begins a step, and ends steps with everything that is due after them: all but those with which the runner
/// may be ahead. False if the run was set back to a checkpoint.
bool Trainer::advance() {
  profiler_.begin_step();
  const int64_t step = state_.step + static_cast<int64_t>(begun_.size()) + 1;
  const ProfileSpan whole = span("step", ProfileCategory::kStep, step);
  if (const std::optional<Control> stop = await_batch()) return stop_at(*stop);
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
  const RunPosition at = position_of(session_, last.after);
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
  if (evaluation_error_) fail_evaluation();
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
  saved_step_ = state_.step;
  if (!finished() && !stopped()) runner_->release();
  evaluated_.clear();
}

/// Saves the state, and throws the error of the evaluation: the run can go on from here, and then evaluates first.
void Trainer::fail_evaluation() {
  try {
    save();
    checkpoints_->wait();
    log_->info(
        fmt::format("step {} is saved; the run goes on with its evaluation, which failed", state_.step));
  } catch (const std::exception& thrown) {
    log_->warning(fmt::format("step {} is not saved: {}", state_.step, thrown.what()));
  }
  throw *evaluation_error_;
}

/// False for an error that may have come to this process alone, while others wait for it in a collective.
bool Trainer::all_processes_know(const std::exception& thrown) const {
  if (session_.processes->size() > 1) return dynamic_cast<const EvaluationFailure*>(&thrown) != nullptr;
  const auto* const error = dynamic_cast<const Error*>(&thrown);
  return error == nullptr || error->kind() != ErrorKind::kPeerLost;
}

/// Evaluates. A signal or an error that all processes know of postpones the evaluation to the next start of the run.
void Trainer::evaluate() {
  state_.evaluation_pending = false;
  if (!evaluator_) return;
  const ProfileSpan whole = span("evaluation", ProfileCategory::kEvaluation);
  const double begin = agreement_.now().seconds;
  if (!finished()) runner_->fetch_weights();
  std::optional<std::vector<Evaluation>> results;
  try {
    results = evaluator_->run(state_.step, [] { return StopSignals::received() != 0; });
    if (!results) signal_ = agreement_.now().signal;
  } catch (const std::exception& thrown) {
    if (!all_processes_know(thrown)) throw;
    evaluation_error_ = as_error(thrown, "mtf-train");
  }
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

}  // namespace mtf
