#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/base/counted.h"
#include "engine/base/signals.h"
#include "trainer/session/device_notes.h"
#include "trainer/session/model_dir.h"
#include "trainer/train/counter_lines.h"
#include "trainer/train/layer_reports.h"
#include "trainer/train/trainer.h"
#include "trainer/train/utilization.h"

namespace mtf {
namespace {

/// Seconds between two looks at the directory and at the memory in use, which take some of the time of short steps.
constexpr double kLookInterval = 0.1;

}  // namespace

void Trainer::report_start(const Diagnostics& diagnostics) {
  for (const Problem& warning : diagnostics.warnings()) log_->warning(warning.to_string());
  for (const std::string& warning : plan_.step.warnings) log_->warning(warning);
  if (session_.directory_lock && !session_.directory_lock->warning().empty())
    log_->warning(session_.directory_lock->warning());
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

void Trainer::log(bool force) {
  if (log_clock_->due(position()) || force || state_.step == 1) {
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
    if (force || memory_bytes_ == 0 || seconds >= looked_seconds_ + kLookInterval) {
      check_directory();
      memory_bytes_ = memory_in_use(*session_.backend);
      looked_seconds_ = seconds;
    }
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

void Trainer::report_end() {
  log_->finish_progress();
  show_new_device_notes(session_, log_->messages());
  const std::string where =
      fmt::format("{} step{}, {:.2f} epochs, {}; the run is in {}", state_.step, state_.step == 1 ? "" : "s",
                  position().epochs, duration_text(state_.seconds), config_.run.model_dir.text);
  if (!complete()) {
    log_->info(fmt::format("stopped by {}: {}", signal_name(signal_), where));
    return;
  }
  log_->info(fmt::format("{} after {}: {}", state_.step > first_step_ ? "finished" : "nothing is left to do",
                         end_, where));
  for (const std::string& line : counter_lines(executor_.counters(), session_.processes->communicator()))
    log_->info(line);
}

}  // namespace mtf
