#include "trainer/train/run_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "trainer/evaluation/evaluation_files.h"
#include "trainer/session/model_dir.h"

namespace mtf {
namespace {

constexpr const char* kMetrics = "metrics.jsonl";
constexpr const char* kEvaluations = "evaluate.jsonl";
constexpr const char* kSamples = "samples";
constexpr const char* kTextSamples = "samples/texts.jsonl";
constexpr const char* kTrainTag = "train/";

/// True for counters, which are not plotted.
bool is_counter(const std::string& name) {
  constexpr std::array<std::string_view, 4> counters = {"step", "epoch", "examples", "tokens"};
  return std::ranges::find(counters, name) != counters.end();
}

void add_scalar(Metrics& scalars, const std::string& tag, double value) {
  if (std::isfinite(value)) scalars.emplace_back(tag, value);
}

}  // namespace

RunLog::RunLog(const Config& config, const RunState& state, int rank)
    : config_(config),
      is_first_(rank == 0),
      progress_({.log_file = path(is_first_ ? "log.txt" : fmt::format("log.rank-{}.txt", rank)),
                 .append = state.step > 0,
                 .quiet = !is_first_}) {
  cut_back(state);
}

std::string RunLog::path(const std::string& name) const { return in_model_dir(config_, name); }

void RunLog::cut_back(const RunState& state) {
  if (!is_first_) return;
  metrics_.reset();
  evaluations_.reset();
  samples_.reset();
  events_.reset();
  cut_json_lines(path(kMetrics), state.step);
  const int64_t evaluated = state.evaluation_pending ? state.step - 1 : state.step;
  cut_json_lines(path(kEvaluations), evaluated);
  cut_json_lines(path(kTextSamples), evaluated);
  remove_evaluation_files_after(config_.run.model_dir.text, evaluated);
  cut_event_files(config_.run.model_dir.text, [&](int64_t step, std::string_view tag) {
    return step <= (tag.starts_with(kTrainTag) ? state.step : evaluated);
  });
  metrics_.emplace(path(kMetrics));
  events_.emplace(config_.run.model_dir.text, state.step);
}

void RunLog::step(const Metrics& numbers, std::vector<MetricList> lists) {
  if (!is_first_) return;
  metrics_->write(numbers, {}, lists);
  Metrics scalars;
  for (const auto& [name, value] : numbers) {
    if (!is_counter(name)) add_scalar(scalars, kTrainTag + name, value);
  }
  for (MetricList& list : lists) list.name = kTrainTag + list.name;
  events_->write(static_cast<int64_t>(numbers.front().second), scalars, lists);
}

void RunLog::write_samples(int64_t step, const Evaluation& evaluation) {
  if (evaluation.samples.empty()) return;
  if (!samples_) {
    std::error_code ignored;  // what cannot be written into is reported below
    std::filesystem::create_directory(path(kSamples), ignored);
    samples_.emplace(path(kTextSamples));
  }
  for (const DecodedSample& sample : evaluation.samples) {
    samples_->write({{"step", static_cast<double>(step)}, {"example", static_cast<double>(sample.example)}},
                    {{"dataset", evaluation.dataset},
                     {"input", sample.input},
                     {"target", sample.target},
                     {"prediction", sample.prediction}});
  }
}

void RunLog::evaluation(int64_t step, const Evaluation& evaluation) {
  info(fmt::format("evaluation at step {}:{}", step, evaluation_line(evaluation)));
  if (!is_first_) return;
  for (const std::string& line : example_lines(evaluation, config_.evaluate.examples_in_log)) info(line);
  if (!evaluations_) evaluations_.emplace(path(kEvaluations));
  evaluations_->write(evaluation_numbers(step, evaluation), {{"dataset", evaluation.dataset}});
  write_samples(step, evaluation);
  write_evaluation_files(config_.run.model_dir.text, step, evaluation);
  Metrics scalars;
  for (const auto& [name, value] : evaluation.metrics)
    add_scalar(scalars, evaluation.dataset + "/" + name, value);
  events_->write(step, scalars);
}

}  // namespace mtf
