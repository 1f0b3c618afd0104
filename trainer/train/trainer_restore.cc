#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "trainer/checkpoint/restore.h"
#include "trainer/optimizer/averages.h"
#include "trainer/steps/stop.h"
#include "trainer/train/divergence.h"
#include "trainer/train/trainer.h"

namespace mtf {
namespace {

/// The largest number of restarts (train.on_divergence: restore), each at half the learning rate, that do not
/// get past the step that diverged.
constexpr int64_t kMostRestored = 8;

}  // namespace

/// Resumes from the checkpoint of the plan or, if that turns out to be damaged, from an older one.
void Trainer::go_on() {
  if (session_.processes->is_first()) {
    for (const DamagedSave& damaged : plan_.continuation->damaged) damage_.push_back(set_aside(damaged));
  }
  for (;;) {
    if (restored(plan_.continuation->checkpoint->path)) break;
    Diagnostics diagnostics;
    plan_.continuation = older_continuation(config_);
    check_vocabulary(session_, *plan_.continuation, diagnostics);
    diagnostics.throw_if_errors();
  }
  const std::vector<std::string>& changes = plan_.continuation->changes;
  notes_.insert(notes_.end(), changes.begin(), changes.end());
}

/// Restores a checkpoint. False if a process has found it damaged; it is then set aside.
bool Trainer::restored(const std::string& path) {
  const size_t notes = notes_.size();
  std::optional<DamagedCheckpoint> damage;
  std::vector<std::string> averages;
  try {
    averages = restore(path);
  } catch (const DamagedCheckpoint& error) {
    damage = error;
  }
  const std::string warning = leave_behind(session_, path, damage);
  if (warning.empty()) {
    for (const std::string& average : averages) start_average(average, variables_);
    return true;
  }
  damage_.push_back(warning);
  notes_.resize(notes);
  return false;
}

/// Restores the variables and the run's state from `checkpoint`. Returns the running means that it lacks: to start them is
/// collective, and another process may have found damage.
std::vector<std::string> Trainer::restore(const std::string& checkpoint) {
  CheckpointReader reader(checkpoint);
  const Manifest& manifest = reader.manifest();
  state_ = run_state(manifest, checkpoint);
  take_slot_begins(checkpoint);
  variables_.initialize(static_cast<uint64_t>(config_.run.seed));
  load_teacher();
  const std::optional<Continuation>& old = plan_.continuation;
  const bool is_of_old_run = old && old->checkpoint && state_.step <= old->checkpoint->step;
  const bool is_of_old_model = is_of_old_run && old->architecture_changed;
  if (is_of_old_run && old->patience_changed) {
    state_.best.reset();
    state_.worse_evaluations = 0;
  }
  NotRestored lacking =
      restore_variables(reader, variables_, is_of_old_model ? Restore::kPresent : Restore::kAll);
  std::string note = fmt::format("continues after step {} of {}", state_.step, config_.run.model_dir.text);
  if (const std::string mesh = session_.layouts.mesh.to_string(); mesh != manifest.mesh)
    note += fmt::format(", saved on {}", manifest.mesh);
  if (const std::string here = session_.backend->instruction_set(); here != manifest.instruction_set)
    note += fmt::format(", saved with {} (here {}: equal up to rounding)", manifest.instruction_set, here);
  notes_.push_back(note);
  if (!lacking.kept.empty()) {
    notes_.push_back(
        fmt::format("not in the checkpoint, so with initial values: {}", fmt::join(lacking.kept, ", ")));
  }
  return std::move(lacking.averages);
}

/// The step counts of the optimizer begin where the slots of the checkpoint did. Throws Error where the program has one count
/// for slots that began at different steps, which may be if a newer checkpoint is damaged that lacked them all.
void Trainer::take_slot_begins(const std::string& checkpoint) {
  SlotBegins& begins = *plan_.update.begins;
  std::map<int64_t, int64_t> moved;
  for (const std::string& name : variables_.names()) {
    if (!has_begin(variables_.variable(name))) continue;
    const int64_t now = state_.slot_begins->of(name);
    const auto [to, is_first] = moved.emplace(begins.of(name), now);
    if (to->second == now) continue;
    throw Error(
        ErrorKind::kCheckpoint,
        fmt::format(
            "in {} slots of the optimizer that lay in no newer checkpoint began at different steps: `{}` "
            "at step {}, others at step {}",
            checkpoint, name, now, to->second),
        "start the run again, which then goes on from this checkpoint");
  }
  begins = *state_.slot_begins;
}

void Trainer::initialize() {
  state_ = {};
  *plan_.update.begins = {};
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
  notes_.push_back(fmt::format("the {} is {}", teacher->name, teacher->path));
  has_teacher_ = true;
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
  const double seconds = agreement_.now().seconds, evaluation_seconds = state_.evaluation_seconds;
  for (bool done = false; !done;) {
    const std::vector<SavedCheckpoint> saved = list_checkpoints(checkpoints_directory(config_));
    const std::string path = broadcast(session_.processes->communicator(),
                                       saved.empty() ? "" : saved.back().path, "checkpoint to go back to");
    if (path.empty()) initialize();
    done = path.empty() || restored(path);
  }
  state_.rate_scale = scale;
  state_.seconds = std::max(state_.seconds, seconds);
  state_.evaluation_seconds = std::max(state_.evaluation_seconds, evaluation_seconds);
  log_->cut_back(state_);
  start_clocks();
  for (const std::string& warning : std::exchange(damage_, {})) log_->warning(warning);
  log_->warning(
      fmt::format("{}; goes back to step {}, with {:.4g} times the learning rate", what, state_.step, scale));
}

}  // namespace mtf
