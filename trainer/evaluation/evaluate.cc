#include "trainer/evaluation/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "data/class_names.h"
#include "engine/base/check.h"
#include "engine/base/exception.h"
#include "engine/base/nearest.h"
#include "engine/base/parse_number.h"
#include "engine/base/print_message.h"
#include "engine/base/printable.h"
#include "engine/base/seconds_since.h"
#include "trainer/checkpoint/restore.h"
#include "trainer/decode/chosen_weights.h"
#include "trainer/decode/decoding_memory.h"
#include "trainer/decode/output.h"
#include "trainer/evaluation/command_metric.h"
#include "trainer/evaluation/evaluation_files.h"
#include "trainer/evaluation/follow.h"
#include "trainer/memory/memory_check.h"
#include "trainer/report/progress.h"
#include "trainer/session/device_notes.h"
#include "trainer/session/evaluation_graph.h"
#include "trainer/session/feed.h"
#include "trainer/session/model_dir.h"
#include "trainer/session/model_inputs.h"
#include "trainer/session/open_data.h"
#include "trainer/session/same_run.h"

namespace mtf {
namespace {

/// True for metrics whose numbers the program computes; others are counted or decoded from what it predicts.
bool is_computed(const std::string& metric) {
  return !is_class_metric(metric) && !is_prediction_metric(metric) && !is_text_metric(metric);
}

/// Returns a metric of classes. Precision, recall, f1 and iou are macro-averaged; f1_binary is that of class 1.
double class_metric(const std::string& name, const ConfusionMatrix& matrix) {
  if (name == "matthews") return matrix.matthews();
  if (name == "f1_micro") return matrix.accuracy();
  if (name == "f1_binary") return matrix.scores()[1].f1;
  const ClassScores mean = matrix.mean();
  if (name == "mean_iou") return mean.iou;
  if (name == "precision") return mean.precision;
  return name == "recall" ? mean.recall : mean.f1;
}

bool asks_for_texts(const EvaluationSet& set) { return !set.texts.inputs.empty(); }

/// Does the parts of an evaluation in which a process may fail alone, and keeps the first failure.
class Attempts {
 public:
  /// Does nothing after a failure.
  template <class Work>
  void operator()(const Work& work) {
    if (failure_) return;
    try {
      work();
    } catch (const std::exception& thrown) {
      if (as_error(thrown, "mtf-train").kind() == ErrorKind::kPeerLost) throw;
      failure_ = std::current_exception();
    }
  }
  const std::exception_ptr& failure() const { return failure_; }

 private:
  std::exception_ptr failure_;
};

Error error_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& thrown) {
    return as_error(thrown, "mtf-train");
  }
}

/// Returns a readable description of the weights that run.mode=evaluate measures.
std::string title_of(const ChosenWeights& weights, const Config& config) {
  if (weights.is_file()) return weights.description();
  const CheckpointReader newest(weights.paths.back());
  const bool averaged = evaluated_weights(config) == Restore::kAverages && has_averages(newest.manifest());
  return (weights.paths.size() == 1 ? newest.path() : weights.description()) +
         (averaged ? " (running means of the weights)" : "");
}

/// Accumulates one metric over the batches of an evaluation. The names of the program's outputs determine
/// whether it is a weighted mean, a sum or a maximum.
class RunningMetric {
 public:
  explicit RunningMetric(const std::string& name) : name_(name) {}

  void add(const Executor& executor) {
    const auto has = [&](const std::string& output) { return executor.program().output(output) != kNoValue; };
    is_mean_ = has("weight/" + name_);
    if (has("maximum/" + name_)) {
      const double value = executor.scalar("maximum/" + name_);
      if (value_ == value_ && !(value <= value_)) value_ = value;  // NaN, too, which stays
    } else {
      value_ += executor.scalar("sum/" + name_);
      if (is_mean_) weight_ += executor.scalar("weight/" + name_);
    }
  }
  std::pair<std::string, double> result() const {
    if (!is_mean_) return {name_, value_};
    return {name_, finish_metric(name_, weight_ > 0 ? value_ / weight_ : 0)};
  }

 private:
  std::string name_;
  double value_ = 0, weight_ = 0;
  bool is_mean_ = false;
};

/// Adds the metrics of classes and the misclassified images.
void add_classes(const Session& session, const EvaluationSet& set, const Predictions& predictions,
                 Evaluation& result) {
  result.class_names = names_of_classes(*set.source, session.preparation);
  result.matrix = predictions.matrix();
  if (result.matrix) {
    for (const std::string& name : set.metrics) {
      if (is_class_metric(name) && is_number(name))
        result.metrics.emplace_back(name, class_metric(name, *result.matrix));
    }
  }
  if (predictions.keeps_mistakes() && session.processes->is_first())
    result.misclassified = read_misclassified(session, set, predictions.mistakes());
}

/// Adds the metrics that are counted from the predictions of all examples, and the predictions as texts.
void add_prediction_metrics(const Session& session, const EvaluationSet& set,
                            const PredictionMetrics& predictions, Evaluation& result) {
  for (const std::string& name : set.metrics) {
    if (is_prediction_metric(name)) result.metrics.emplace_back(name, predictions.metric(name));
  }
  if (session.processes->is_first()) result.texts = predictions.texts();
}

/// Decodes the data set's texts and adds their metrics. Returns false if `stop` returned true before the end.
bool add_texts(const Session& session, const EvaluationSet& set, TextMetrics& text_metrics,
               const std::function<bool()>& stop, Evaluation& result) {
  auto decoded = text_metrics.evaluate(set.texts, set.metrics_of(true), stop);
  if (!decoded) return false;
  result.metrics.insert(result.metrics.end(), decoded->metrics.begin(), decoded->metrics.end());
  result.samples = std::move(decoded->samples);
  if (session.processes->is_first())
    result.texts = PredictedTexts{set.texts.inputs, std::move(decoded->texts), set.texts.references};
  return true;
}

}  // namespace

Evaluator::Evaluator(const Session& session, std::vector<EvaluationSet> sets, Program program,
                     VariableStore& variables, WeightConversions conversions)
    : session_(session),
      sets_(std::move(sets)),
      batch_size_(evaluate_batch_size(session.config, session.layouts)),
      part_(part_of(program, hosting_of(session.config))),
      conversions_(std::move(conversions)),
      weights_(*session.backend, program.mesh, program.variables,
               variable_store_options(session, {&variables})),
      executor_(std::move(program), *session.backend, weights_, executor_options(session)) {
  weights_.share_as("", variables);
  if (std::ranges::any_of(sets_, asks_for_texts))
    text_metrics_ = std::make_unique<TextMetrics>(session, weights_);
}

std::optional<std::vector<Evaluation>> Evaluator::run(int64_t step, const std::function<bool()>& stop) {
  conversions_.make(session_, weights_);
  std::vector<Evaluation> results;
  for (const EvaluationSet& set : sets_) {
    std::optional<Evaluation> result = evaluate(set, step, stop);
    if (!result) return std::nullopt;
    results.push_back(std::move(*result));
  }
  return results;
}

/// Tells the other processes whether this one has failed or is to stop. False if one is to stop. Where one has failed, all
/// throw its error; every process must call it.
bool Evaluator::goes_on(const std::exception_ptr& failure, const std::function<bool()>& stop) const {
  const bool stops = stop && stop();
  if (session_.processes->size() == 1) {
    if (failure) std::rethrow_exception(failure);
    return !stops;
  }
  constexpr std::string_view kStops = "stops";
  std::string state = stops ? std::string(kStops) : "";
  if (failure) {
    const Error error = error_of(failure);
    state = fmt::format("{} {}", static_cast<int>(error.kind()), error.what());
  }
  const std::vector<std::string> states =
      all_gather(session_.processes->communicator(), std::move(state), "state of an evaluation");
  for (size_t process = 0; process < states.size(); ++process) {
    const size_t blank = states[process].find(' ');
    if (blank == std::string::npos) continue;
    const auto kind = static_cast<ErrorKind>(*parse_number<int>(states[process].substr(0, blank)));
    const bool is_own = static_cast<int>(process) == session_.processes->rank();
    throw EvaluationFailure(
        kind, (is_own ? "" : fmt::format("process {}: ", process)) + states[process].substr(blank + 1));
  }
  return std::ranges::find(states, kStops) == states.end();
}

/// Nothing where neither metrics of classes nor misclassified images are asked for, or the model is no classifier.
std::optional<Predictions> Evaluator::predictions_of(const EvaluationSet& set) const {
  if (executor_.program().output(kClasses) == kNoValue) return std::nullopt;
  PredictionOptions options{.counts_classes = std::ranges::any_of(set.metrics, is_class_metric),
                            .dataset = set.name};
  if (shows_misclassified(session_)) options.mistakes = session_.config.evaluate.misclassified;
  if (!options.counts_classes && options.mistakes == 0) return std::nullopt;
  return Predictions(executor_, std::move(options));
}

std::unique_ptr<PredictionMetrics> Evaluator::prediction_metrics_of(const EvaluationSet& set) const {
  if (!std::ranges::any_of(set.metrics, is_prediction_metric) && set.commands.empty()) return nullptr;
  return make_prediction_metrics(executor_, set, session_.config.evaluate.answers,
                                 names_of_classes(*set.source, session_.preparation));
}

/// Returns the metric of a command, which process 0 runs; nullopt if `stop` returned true. The processes exchange their
/// states until the command has ended, however long it takes, so the loss of a process ends the wait.
std::optional<double> Evaluator::run_command(const CommandMetric& command, const EvaluationSet& set,
                                             const std::function<bool()>& stop,
                                             const Evaluation& result) const {
  const auto state_of_first = [this](const std::string& mine) {
    return all_gather(session_.processes->communicator(), mine, "metric of a command")[0];
  };
  const auto stops = [&] { return !goes_on({}, stop); };
  std::string state;  // empty while the command runs, then its number or the text of an error
  if (session_.processes->is_first()) {
    MTF_CHECK(result.texts, "{} has no predictions", set.name);
    try {
      const auto value = run_command_metric(command, *result.texts, set.name, [&] {
        state_of_first("");
        return !stops();
      });
      if (!value) return std::nullopt;
      state = fmt::format("{}", *value);
    } catch (const std::exception& thrown) {
      const Error error = as_error(thrown, "mtf-train");
      if (error.kind() == ErrorKind::kPeerLost) throw error;
      state = error.what();
    }
    state_of_first(state);
  } else {
    while ((state = state_of_first("")).empty()) {
      if (stops()) return std::nullopt;
    }
  }
  if (const std::optional<double> value = parse_number<double>(state)) return value;
  if (stops()) return std::nullopt;  // the signal may have reached the command, too
  throw EvaluationFailure(ErrorKind::kData, state);
}

std::optional<Evaluation> Evaluator::evaluate(const EvaluationSet& set, int64_t step,
                                              const std::function<bool()>& stop) {
  const auto start = std::chrono::steady_clock::now();
  const BatchStream stream(set.source, EvaluationBatches{.batch_size = batch_size_, .limit = set.limit},
                           part_);
  Prefetcher batches(stream);
  std::vector<RunningMetric> metrics;
  for (const std::string& name : set.metrics) {
    if (is_computed(name)) metrics.emplace_back(name);
  }
  std::optional<Predictions> predictions;
  std::unique_ptr<PredictionMetrics> of_predictions;
  Attempts attempt;
  attempt([&] {
    predictions = predictions_of(set);
    of_predictions = prediction_metrics_of(set);
  });
  const bool counts_tokens = executor_.program().output("tokens") != kNoValue;
  double examples = 0, tokens = 0;
  for (;;) {
    const Batch* batch = nullptr;
    attempt([&] { batch = batches.next(); });
    if (!goes_on(attempt.failure(), stop)) return std::nullopt;
    if (batch == nullptr) break;
    feed_batch(executor_, *set.source, *batch);
    executor_.feed(std::string(kWeightsInput), batch->weights.data(), batch->first);
    executor_.run(static_cast<uint64_t>(step));
    attempt([&] {
      for (RunningMetric& metric : metrics) metric.add(executor_);
      const int64_t first = batch->index * batch_size_,
                    rows = std::min(batch_size_, batches.stream().examples() - first);
      if (predictions) predictions->add(executor_, first, rows);
      if (of_predictions) of_predictions->add(executor_, first, rows);
      examples += executor_.scalar("examples");
      if (counts_tokens) tokens += executor_.scalar("tokens");
    });
  }
  Evaluation result{set.name, {}, static_cast<int64_t>(examples), std::nullopt, 0};
  if (counts_tokens) result.tokens = static_cast<int64_t>(tokens);
  for (const RunningMetric& metric : metrics) result.metrics.push_back(metric.result());
  bool is_stopped = false;
  attempt([&] {
    if (predictions) add_classes(session_, set, *predictions, result);
    if (of_predictions) add_prediction_metrics(session_, set, *of_predictions, result);
  });
  if (!goes_on(attempt.failure(), stop)) return std::nullopt;
  if (asks_for_texts(set)) {
    std::function<bool()> stops;
    if (stop) stops = [&] { return !goes_on({}, stop); };
    attempt([&] { is_stopped = !add_texts(session_, set, *text_metrics_, stops, result); });
    if (is_stopped || !goes_on(attempt.failure(), stop)) return std::nullopt;
  }
  for (const CommandMetric& command : set.commands) {
    const std::optional<double> value = run_command(command, set, stop, result);
    if (!value) return std::nullopt;
    result.metrics.emplace_back(command.name, *value);
  }
  result.seconds = seconds_since(start);
  return result;
}

Metrics evaluation_numbers(int64_t step, const Evaluation& evaluation) {
  Metrics numbers{{"step", step}};
  numbers.insert(numbers.end(), evaluation.metrics.begin(), evaluation.metrics.end());
  numbers.emplace_back("examples", evaluation.examples);
  if (evaluation.tokens) numbers.emplace_back("tokens", *evaluation.tokens);
  numbers.emplace_back("seconds", evaluation.seconds);
  return numbers;
}

namespace {

/// Measures weights and reports the results.
class CheckpointEvaluation {
 public:
  CheckpointEvaluation(const Session& session, Evaluator& evaluator, const WeightConversions& conversions,
                       VariableStore& variables)
      : session_(session), evaluator_(evaluator), conversions_(conversions), variables_(variables) {}

  void load(const ChosenWeights& weights) {
    load_for_examples(session_, "evaluate.datasets." + session_.config.evaluate.datasets.begin()->first, [&] {
      load_weights(weights, session_, conversions_, variables_, evaluated_weights(session_.config));
      title_ = title_of(weights, session_.config);  // the run may remove the checkpoint while it is measured
    });
  }

  /// Measures what is loaded.
  void measure(const ChosenWeights& weights) {
    const Config& config = session_.config;
    const auto results = evaluator_.run(weights.step);
    for (const Evaluation& result : *results) note_numbers(weights, result);
    if (!session_.processes->is_first()) return;
    for (const Evaluation& result : *results) {
      print_message("{}:{}\n", title_, evaluation_line(result));
      fmt::print("{}\n", json_line(evaluation_numbers(weights.step, result), {{"dataset", result.dataset}}));
      if (!config.evaluate.output.empty())
        write_evaluation_files(name_at_step(config.evaluate.output, weights.step), weights.step, result);
    }
    check_standard_output();
  }

  /// Throws Error (kDiverged) if a metric that the program computes was not a number.
  void check_numbers() const {
    if (!not_a_number_.empty())
      throw Error(ErrorKind::kDiverged, not_a_number_, "weights of an earlier checkpoint");
  }

 private:
  void note_numbers(const ChosenWeights& weights, const Evaluation& result) {
    for (const auto& [name, value] : result.metrics) {
      if (is_computed(name) && std::isnan(value) && not_a_number_.empty())
        not_a_number_ =
            fmt::format("{}: `{}` of {} is not a number (NaN)", weights.description(), name, result.dataset);
    }
  }

  const Session& session_;
  Evaluator& evaluator_;
  const WeightConversions& conversions_;
  VariableStore& variables_;
  std::string title_;         ///< names what is loaded
  std::string not_a_number_;  ///< says the first one
};

/// Reports a choice of checkpoints that cannot be followed.
void check_followed(const Config& config, Diagnostics& diagnostics) {
  const auto* const word = std::get_if<InferCheckpointWord>(&config.evaluate.checkpoint);
  if (word != nullptr && *word != InferCheckpointWord::kBest) return;
  diagnostics.error(config.mark("evaluate.checkpoint"),
                    "`evaluate.follow` takes the checkpoints as they come",
                    "`latest`, to begin with the newest one, or `all`");
}

}  // namespace

void evaluate(Session& session, Diagnostics& diagnostics) {
  const Config& config = session.config;
  if (config.evaluate.follow) {
    check_followed(config, diagnostics);
    diagnostics.throw_if_errors();
    await_checkpoint(config);
    session.preparation = stored_preparation(config);
  }
  // Another process may see one checkpoint more of a job that trains.
  std::vector<ChosenWeights> chosen;
  if (!config.evaluate.follow && !config.evaluate.datasets.empty() && !diagnostics.has_errors())
    chosen = choose_weights(config, config.evaluate.checkpoint, "evaluate.checkpoint");
  std::vector<EvaluationSet> sets = open_evaluation_sets(session, diagnostics);
  if (config.evaluate.datasets.empty() && !diagnostics.has_errors())
    diagnostics.error(config.mark("evaluate"), "`evaluate.datasets` is missing",
                      "sources by name, with `metrics`");
  // The model is built for the features of the evaluation data; data.train need not be available.
  if (!sets.empty()) session.train_data = std::make_shared<DeclaredSource>(sets.front().source->features());
  check_layout_rules(session, diagnostics);
  const EvaluationGraph built = build_evaluation(session, diagnostics);
  diagnostics.throw_if_errors();
  if (built.classes) {
    for (const EvaluationSet& set : sets)
      set.source->check_labels(label_range(*session.model, *built.classes));
  }
  Program program = compile(session, *built.graph);
  const WeightConversions conversions(session, *built.graph, session.layouts);
  check_memory(session, {&program}, false, sets, evaluation_decoding(session, sets));
  std::vector<std::pair<std::string, std::string>> fields;
  if (!config.evaluate.follow) fields = fields_of(session, together(chosen, {}));
  if (!config.evaluate.output.empty())
    check_output_names(config.evaluate.output, config.evaluate.follow ? 2 : chosen.size(),
                       config.mark("evaluate.output"));
  check_same_run(session, {&program}, std::move(fields), examples_of(sets));
  const DeviceNotes notes(session);
  VariableStore variables(*session.backend, program.mesh, program.variables, variable_store_options(session));
  if (session.teacher) restore_constants(session.teacher->path, std::string(kTeacher) + "/", variables);
  Evaluator evaluator(session, std::move(sets), std::move(program), variables);
  CheckpointEvaluation evaluation(session, evaluator, conversions, variables);
  if (config.evaluate.follow) {
    follow_checkpoints(session, {[&](const ChosenWeights& weights) { evaluation.load(weights); },
                                 [&](const ChosenWeights& weights) { evaluation.measure(weights); }});
  }
  for (const ChosenWeights& weights : chosen) {
    evaluation.load(weights);
    evaluation.measure(weights);
  }
  evaluation.check_numbers();
}

std::string evaluation_line(const Evaluation& evaluation) {
  std::string line = fmt::format("  {}", evaluation.dataset);
  for (const auto& [name, value] : evaluation.metrics) {
    line += fmt::format("  {} {}", name,
                        std::isnan(value) ? "NaN"
                        : is_count(name)  ? with_thousands(value)
                                          : fmt::format("{:.4f}", value));
  }
  return line + fmt::format("  ({} examples in {})", with_thousands(static_cast<double>(evaluation.examples)),
                            duration_text(evaluation.seconds));
}

std::vector<std::string> example_lines(const Evaluation& evaluation, int64_t most) {
  constexpr size_t kLongest = 120;
  const auto shown = [](const std::string& text) {
    const std::string line = printable(text);
    const size_t end = byte_of_character(line, kLongest);
    return end < line.size() ? line.substr(0, end) + "…" : line;
  };
  std::vector<std::string> lines;
  if (!evaluation.texts) return lines;
  const PredictedTexts& texts = *evaluation.texts;
  for (size_t i = 0; i < texts.predictions.size() && std::ssize(lines) < most; ++i) {
    std::string line = fmt::format("  {}: ", evaluation.dataset);
    if (i < texts.inputs.size()) line += shown(texts.inputs[i]) + " -> ";
    line += shown(texts.predictions[i]);
    if (!texts.references.empty()) line += fmt::format(" ({})", shown(texts.references[0][i]));
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace mtf
