#include "trainer/train.h"

#include <fmt/format.h>

#include <chrono>
#include <limits>

#include "data/loader.h"
#include "trainer/evaluate.h"
#include "trainer/interval.h"
#include "trainer/metrics.h"
#include "trainer/model_dir.h"
#include "trainer/progress.h"

namespace mtf {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// What is built and checked before anything is written.
struct Plan {
  std::optional<int64_t> steps;
  UpdateOptions update;
  TrainStep step;
  std::vector<EvaluationSet> evaluation_sets;
  Program program;
  std::optional<Program> evaluation;
};

Plan make_plan(const Session& session, Diagnostics& diagnostics) {
  Plan plan;
  check_model_dir(session.config, diagnostics);
  plan.steps = planned_steps(session);
  const TrainStepOptions options = train_step_options(
      session.config, session.layouts, plan.steps.value_or(std::numeric_limits<int64_t>::max()));
  std::optional<TrainStep> step = build_step(session, options, diagnostics);
  plan.evaluation_sets = open_evaluation_sets(session, diagnostics);
  std::unique_ptr<Graph> evaluation;
  if (!plan.evaluation_sets.empty()) evaluation = build_evaluation(session, diagnostics);
  diagnostics.throw_if_errors();
  if (step->classes) {
    session.train_data->check_labels(step->classes->size);
    for (const EvaluationSet& set : plan.evaluation_sets) set.source->check_labels(step->classes->size);
  }
  plan.update = *options.update;
  plan.program = compile(session, *step->graph);
  if (evaluation) plan.evaluation = compile(session, *evaluation);
  plan.step = std::move(*step);
  return plan;
}

class Trainer {
 public:
  Trainer(const Session& session, Plan plan);

  void report_start(const Diagnostics& diagnostics);
  /// Errors also go to log.txt.
  void run();

 private:
  void loop();
  bool finished() const { return !end_.empty(); }
  void step(const Batch& batch);
  void check_finite();
  void log(bool force);
  void show_progress(double loss, double seconds);
  void evaluate();
  void check_end();
  double epochs() const { return static_cast<double>(rows_) / static_cast<double>(stream_.examples()); }
  std::optional<double> seconds_left(double seconds) const;

  const Session& session_;
  const Config& config_;
  Plan plan_;
  Progress progress_;
  VariableStore variables_;
  Executor executor_;
  std::unique_ptr<Evaluator> evaluator_;
  BatchStream stream_;
  JsonLines metrics_;
  std::unique_ptr<JsonLines> evaluations_;
  IntervalClock log_clock_;
  IntervalClock evaluate_clock_;

  int64_t done_ = 0;           ///< steps
  int64_t rows_ = 0;           ///< examples trained on
  int64_t evaluated_at_ = -1;  ///< step of the last evaluation
  Clock::time_point start_;
  double evaluation_seconds_ = 0;
  int64_t logged_step_ = 0;
  double logged_seconds_ = 0;
  std::string end_;  ///< why the run ended; empty: it goes on
};

Trainer::Trainer(const Session& session, Plan plan)
    : session_(session),
      config_(session.config),
      plan_(std::move(plan)),
      progress_({.log_file = in_model_dir(config_, "log.txt")}),
      variables_(*session.backend, plan_.program.mesh, plan_.program.variables, config_.run.check_replicas),
      executor_(plan_.program, *session.backend, variables_, executor_options(session)),
      stream_(session.train_data,
              TrainingBatches{.batch_size = train_batch_size(config_, session.layouts),
                              .seed = static_cast<uint64_t>(config_.data.seed.value_or(config_.run.seed)),
                              .shuffle = config_.data.shuffle}),
      metrics_(in_model_dir(config_, "metrics.jsonl")),
      log_clock_(config_.train.log_every),
      evaluate_clock_(config_.evaluate.every) {
  variables_.initialize(static_cast<uint64_t>(config_.run.seed));
  if (plan_.evaluation) {
    evaluator_ = std::make_unique<Evaluator>(plan_.evaluation_sets, *plan_.evaluation,
                                             evaluate_batch_size(config_, session.layouts), *session.backend,
                                             variables_, executor_options(session));
    evaluations_ = std::make_unique<JsonLines>(in_model_dir(config_, "evaluate.jsonl"));
  }
}

void Trainer::report_start(const Diagnostics& diagnostics) {
  for (const Problem& warning : diagnostics.warnings()) progress_.warning(warning.to_string());
  for (const std::string& warning : plan_.step.warnings) progress_.warning(warning);
  int64_t parameters = 0;
  for (const ProgramVariable& v : plan_.program.variables) {
    if (v.variable.kind == Variable::Kind::kWeight) parameters += v.variable.shape.size();
  }
  const Mesh& mesh = plan_.program.mesh;
  progress_.info(fmt::format("{} parameters, {} examples, batch {}, {}, {} threads, {:.1f} MB per position",
                             with_thousands(static_cast<double>(parameters)),
                             with_thousands(static_cast<double>(stream_.examples())), stream_.batch_size(),
                             mesh.size() == 1 ? "1 position" : fmt::format("mesh {}", mesh.to_string()),
                             thread_count(config_),
                             static_cast<double>(executor_.memory().position_bytes()) / 1e6));
}

void Trainer::run() {
  try {
    loop();
  } catch (const Error& error) {
    progress_.record(error.what());
    throw;
  }
}

void Trainer::loop() {
  Prefetcher batches(stream_);
  start_ = Clock::now();
  while (!finished()) {
    const Batch* batch = batches.next();
    step(*batch);
    check_end();
    log(finished());
    const double seconds = seconds_since(start_) - evaluation_seconds_;
    if (evaluate_clock_.due(done_, epochs(), seconds)) evaluate();
  }
  if (evaluated_at_ != done_) evaluate();
  progress_.finish();
  progress_.info(fmt::format("finished after {}: {} steps, {:.2f} epochs, {}; the run is in {}", end_, done_,
                             epochs(), duration_text(seconds_since(start_)), config_.run.model_dir.text));
  if (const Counters& counted = executor_.counters(); counted.runs > 0) {
    const auto runs = static_cast<double>(counted.runs);
    progress_.info(fmt::format("counted in a step on a position: {:.4f} MFLOP in contractions, {} sent",
                               counted.flops_per_position / runs / 1e6,
                               bytes_text(counted.bytes_per_position / runs)));
  }
}

void Trainer::step(const Batch& batch) {
  feed_batch(executor_, *session_.train_data, batch);
  for (const StepScalar& scalar : plan_.step.scalars)
    executor_.feed_scalar(scalar.input, scalar.value(done_));
  executor_.run(static_cast<uint64_t>(done_));
  check_finite();
  ++done_;
  rows_ = batch.next_row;
}

void Trainer::check_finite() {
  if (executor_.scalar("finite") != 0) return;
  const double loss = executor_.scalar("loss");
  const double norm = executor_.scalar("grad_norm");
  const std::string culprit = executor_.first_non_finite(static_cast<uint64_t>(done_));
  std::string message =
      fmt::format("step {}: the loss is {} and the norm of the gradients {}", done_ + 1, loss, norm);
  if (!culprit.empty()) message += fmt::format("; the first value that is not finite comes from {}", culprit);
  throw Error(
      ErrorKind::kDiverged, message,
      "the weights are those of the step before; try a lower `learning_rate` or `optimizer.clip_norm`");
}

void Trainer::log(bool force) {
  const double seconds = seconds_since(start_) - evaluation_seconds_;
  const double loss = executor_.scalar("loss");
  const bool due = log_clock_.due(done_, epochs(), seconds);
  if (due || force || done_ == 1) {
    const double step_seconds = (seconds - logged_seconds_) / static_cast<double>(done_ - logged_step_);
    Metrics line{{"step", done_},
                 {"epoch", epochs()},
                 {"examples", rows_},
                 {"time", seconds},
                 {"loss", loss},
                 {"learning_rate", learning_rate_at(plan_.update, done_ - 1)},
                 {"grad_norm", executor_.scalar("grad_norm")},
                 {"step_ms", step_seconds * 1000},
                 {"examples_per_second", static_cast<double>(stream_.batch_size()) / step_seconds}};
    for (const auto& [name, value] : plan_.program.outputs) {
      if (name.starts_with("metric/")) line.emplace_back(name.substr(7), executor_.scalar(name));
    }
    metrics_.write(line);
    logged_step_ = done_;
    logged_seconds_ = seconds;
  }
  show_progress(loss, seconds);
}

void Trainer::show_progress(double loss, double seconds) {
  progress_.update({.step = done_,
                    .total = plan_.steps.value_or(0),
                    .epoch = epochs(),
                    .loss = loss,
                    .examples_per_second = static_cast<double>(rows_) / seconds,
                    .seconds_left = seconds_left(seconds)});
}

std::optional<double> Trainer::seconds_left(double seconds) const {
  std::optional<double> left;
  if (plan_.steps) left = seconds / static_cast<double>(done_) * static_cast<double>(*plan_.steps - done_);
  if (config_.train.time) {
    const double of_time = config_.train.time->seconds - seconds;
    left = std::max(0.0, std::min(left.value_or(of_time), of_time));
  }
  return left;
}

void Trainer::evaluate() {
  evaluated_at_ = done_;
  if (!evaluator_) return;
  const Clock::time_point begin = Clock::now();
  for (const Evaluation& evaluation : evaluator_->run(done_)) {
    Metrics numbers{{"step", done_}};
    numbers.insert(numbers.end(), evaluation.metrics.begin(), evaluation.metrics.end());
    numbers.emplace_back("examples", evaluation.examples);
    numbers.emplace_back("seconds", evaluation.seconds);
    evaluations_->write(numbers, {{"dataset", evaluation.dataset}});
    progress_.info(fmt::format("evaluation at step {}:{}", done_, evaluation_line(evaluation)));
  }
  evaluation_seconds_ += seconds_since(begin);
}

void Trainer::check_end() {
  const TrainOptions& train = config_.train;
  if (train.steps && done_ >= *train.steps) {
    end_ = fmt::format("train.steps = {}", *train.steps);
  } else if (plan_.steps && done_ >= *plan_.steps) {
    end_ = fmt::format("train.epochs = {}", *train.epochs);
  } else if (train.time && seconds_since(start_) >= train.time->seconds) {
    end_ = fmt::format("train.time = {}", duration_text(train.time->seconds));
  }
}

}  // namespace

void train(const Session& session, Diagnostics& diagnostics) {
  Plan plan = make_plan(session, diagnostics);
  std::vector<const Program*> programs{&plan.program};
  if (plan.evaluation) programs.push_back(&*plan.evaluation);
  check_memory(programs, session.config.run.check_replicas);
  create_model_dir(session.config);
  Trainer trainer(session, std::move(plan));
  trainer.report_start(diagnostics);
  trainer.run();
}

}  // namespace mtf
