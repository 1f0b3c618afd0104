#include "trainer/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "engine/core/nearest.h"
#include "trainer/decode/chosen_weights.h"
#include "trainer/memory/check.h"
#include "trainer/optimizer/averages.h"
#include "trainer/report/device_notes.h"
#include "trainer/report/progress.h"
#include "trainer/restore.h"
#include "trainer/same_run.h"

namespace mtf {
namespace {

/// `written`: texts can be written for the data set.
void check_metrics(const EvaluationSet& set, const Model& model, bool written, const Mark& mark,
                   Diagnostics& diagnostics) {
  std::vector<std::string> known = model.metrics();
  if (written) std::ranges::copy(text_metric_names(), std::back_inserter(known));
  for (const std::string& metric : set.metrics) {
    if (std::find(known.begin(), known.end(), metric) != known.end()) continue;
    diagnostics.error(
        mark, fmt::format("`evaluate.datasets.{}.metrics`: the model has no metric `{}`", set.name, metric),
        did_you_mean(metric, known));
  }
}

/// What the examples of all data sets must look like, and whose examples do.
struct ExpectedExamples {
  const Source& source;
  std::string name;  ///< "data.train"
};

/// The model's features must look the same in both.
void check_features(const EvaluationSet& set, const ExpectedExamples& examples, const Model& model,
                    const Mark& mark, Diagnostics& diagnostics) {
  const std::vector<Feature>&here = set.source->features(), &there = examples.source.features();
  for (const std::string& name : model.features()) {
    const auto expected = std::ranges::find(there, name, &Feature::name);
    const auto found = std::ranges::find(here, name, &Feature::name);
    if (expected == there.end()) continue;
    if (found == here.end()) {
      diagnostics.error(mark, fmt::format("`evaluate.datasets.{}` has no feature `{}`", set.name, name));
    } else if (*found != *expected) {
      diagnostics.error(mark,
                        fmt::format("`evaluate.datasets.{}`: `{}` is {} {}, and in {} {} {}", set.name, name,
                                    name_of(found->dtype), found->shape.to_string(), examples.name,
                                    name_of(expected->dtype), expected->shape.to_string()));
    }
  }
}

EvaluationTexts read_texts(const TextSourceOptions& source, const EvaluationSet& set,
                           const std::vector<config::Path>& references, const Session& session,
                           const Mark& mark) {
  EvaluationTexts texts =
      read_evaluation_texts(source, references, session.vocabularies, mark, session.config.data.text_limit());
  const size_t most = set.limit ? static_cast<size_t>(*set.limit) : texts.inputs.size();
  if (most < texts.inputs.size()) {
    texts.inputs.resize(most);
    for (auto& reference : texts.references) reference.resize(most);
  }
  return texts;
}

bool asks_for_texts(const EvaluationSet& set) { return !set.texts.inputs.empty(); }

/// Texts can be written for the data set, and measured.
bool writes_texts(const Session& session, const EvaluationSourceOptions& dataset) {
  const TextDecoder* decoder = session.model->decoder();
  return text_source(source_of(dataset)) && decoder != nullptr && decoder->has_encoder();
}

/// What run.mode=evaluate measures, for a person.
std::string title_of(const ChosenWeights& weights, const Config& config) {
  if (weights.is_file()) return weights.description();
  const CheckpointReader newest(weights.paths.back());
  const bool averaged = evaluated_weights(config) == Restore::kAverages &&
                        std::ranges::any_of(newest.manifest().variables, [](const auto& saved) {
                          return !averaged_weight(saved.name).empty();
                        });
  return (weights.paths.size() == 1 ? newest.path() : weights.description()) +
         (averaged ? " (running means of the weights)" : "");
}

/// One number from the batches of an evaluation: a mean, a sum or a maximum, as the program's outputs say.
class RunningMetric {
 public:
  explicit RunningMetric(const std::string& name) : name_(name) {}

  void add(const Executor& executor) {
    const auto has = [&](const std::string& output) { return executor.program().output(output) != kNoValue; };
    is_mean_ = has("weight/" + name_);
    if (has("maximum/" + name_)) {
      value_ = std::max(value_, executor.scalar("maximum/" + name_));
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

/// Of those that are measured by default.
std::vector<std::string> default_metrics(const Model& model) {
  std::vector<std::string> names = model.metrics();
  std::erase_if(names, [](const std::string& name) { return !measured_by_default(name); });
  return names;
}

}  // namespace

std::vector<std::string> EvaluationSet::metrics_of(bool texts) const {
  std::vector<std::string> names;
  std::ranges::copy_if(metrics, std::back_inserter(names),
                       [&](const std::string& name) { return is_text_metric(name) == texts; });
  return names;
}

std::vector<EvaluationSet> declared_evaluation_sets(const Session& session, Diagnostics& diagnostics) {
  std::vector<EvaluationSet> sets;
  const Config& config = session.config;
  for (const auto& [name, dataset] : config.evaluate.datasets) {
    EvaluationSet set{name, nullptr, metrics_of(dataset), limit_of(dataset)};
    if (session.model) {
      if (set.metrics.empty()) set.metrics = default_metrics(*session.model);
      check_metrics(set, *session.model, writes_texts(session, dataset),
                    config.mark("evaluate.datasets." + name + ".metrics"), diagnostics);
    }
    sets.push_back(std::move(set));
  }
  return sets;
}

std::vector<EvaluationSet> open_evaluation_sets(const Session& session, Diagnostics& diagnostics) {
  std::vector<EvaluationSet> opened;
  const Config& config = session.config;
  for (EvaluationSet& set : declared_evaluation_sets(session, diagnostics)) {
    const Mark mark = config.mark("evaluate.datasets." + set.name);
    const EvaluationSourceOptions& dataset = *config.evaluate.datasets.find(set.name);
    set.source = open_source(session, source_of(dataset), mark, diagnostics);
    if (!session.model || !set.source) continue;
    if (!session.train_data && config.run.mode != RunMode::kEvaluate) continue;
    if (writes_texts(session, dataset) && session.vocabularies.targets && !set.metrics_of(true).empty()) {
      set.texts = read_texts(*text_source(source_of(dataset)), set, references_of(dataset), session, mark);
    }
    const EvaluationSet& first = opened.empty() ? set : opened.front();
    const ExpectedExamples expected =
        session.train_data ? ExpectedExamples{*session.train_data, "data.train"}
                           : ExpectedExamples{*first.source, "evaluate.datasets." + first.name};
    check_features(set, expected, *session.model, mark, diagnostics);
    if (session.model->is_aligned()) set.source->check_aligned(mark);
    opened.push_back(std::move(set));
  }
  return opened;
}

Evaluator::Evaluator(const Session& session, std::vector<EvaluationSet> sets, Program program,
                     VariableStore& variables)
    : sets_(std::move(sets)),
      batch_size_(evaluate_batch_size(session.config, session.layouts)),
      rows_(rows_of(program, hosting_of(session.config))),
      executor_(std::move(program), *session.backend, variables, executor_options(session)) {
  if (std::ranges::any_of(sets_, asks_for_texts))
    text_metrics_ = std::make_unique<TextMetrics>(session, variables);
}

std::optional<std::vector<Evaluation>> Evaluator::run(int64_t step, const std::function<bool()>& stop) {
  std::vector<Evaluation> results;
  for (const EvaluationSet& set : sets_) {
    std::optional<Evaluation> result = evaluate(set, step, stop);
    if (!result) return std::nullopt;
    results.push_back(std::move(*result));
  }
  return results;
}

std::optional<Evaluation> Evaluator::evaluate(const EvaluationSet& set, int64_t step,
                                              const std::function<bool()>& stop) {
  const auto start = std::chrono::steady_clock::now();
  const BatchStream stream(set.source, EvaluationBatches{.batch_size = batch_size_, .limit = set.limit},
                           rows_);
  Prefetcher batches(stream);
  std::vector<RunningMetric> metrics;
  for (const std::string& name : set.metrics_of(false)) metrics.emplace_back(name);
  const bool counts_tokens = executor_.program().output("tokens") != kNoValue;
  double examples = 0, tokens = 0;
  while (const Batch* batch = batches.next()) {
    if (stop && stop()) return std::nullopt;
    feed_batch(executor_, *set.source, *batch);
    executor_.feed(std::string(kWeightsInput), batch->weights.data(), batch->first);
    executor_.run(static_cast<uint64_t>(step));
    for (RunningMetric& metric : metrics) metric.add(executor_);
    examples += executor_.scalar("examples");
    if (counts_tokens) tokens += executor_.scalar("tokens");
  }
  Evaluation result{set.name, {}, static_cast<int64_t>(examples), std::nullopt, 0};
  if (counts_tokens) result.tokens = static_cast<int64_t>(tokens);
  for (const RunningMetric& metric : metrics) result.metrics.push_back(metric.result());
  if (asks_for_texts(set)) {
    const auto of_texts = text_metrics_->evaluate(set.texts, set.metrics_of(true), stop);
    if (!of_texts) return std::nullopt;
    result.metrics.insert(result.metrics.end(), of_texts->begin(), of_texts->end());
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

BatchRows rows_of(const Program& program, Hosting hosting) {
  const HostedMesh mesh(program.mesh, hosting);
  BatchRows all;
  for (const auto& [name, id] : program.inputs) {
    const Value& value = program.values[id];
    if (value.shape.rank() == 0 || value.shape[0].name != kBatch) continue;
    const int64_t rows = program.local_shape(id)[0].size;
    const HostedCopies copies = mesh.copies(value.layout.varies());
    for (int64_t copy = 0; copy < copies.size(); ++copy) {
      const int64_t begin = slice_begin(value.shape, value.layout, program.mesh, copies.position(copy))[0];
      const int64_t end = std::max(begin + rows, all.begin + all.count.value_or(0));
      all.begin = all.count ? std::min(all.begin, begin) : begin;
      all.count = end - all.begin;
    }
  }
  return all;
}

void feed_batch(Executor& executor, const Source& source, const Batch& batch) {
  const std::vector<Feature>& features = source.features();
  for (size_t i = 0; i < features.size(); ++i) {
    if (executor.program().input(features[i].name) == kNoValue) continue;
    executor.feed(features[i].name, batch.feature(static_cast<int>(i)).data(), batch.first);
  }
}

Metrics evaluation_numbers(int64_t step, const Evaluation& evaluation) {
  Metrics numbers{{"step", step}};
  numbers.insert(numbers.end(), evaluation.metrics.begin(), evaluation.metrics.end());
  numbers.emplace_back("examples", evaluation.examples);
  if (evaluation.tokens) numbers.emplace_back("tokens", *evaluation.tokens);
  numbers.emplace_back("seconds", evaluation.seconds);
  return numbers;
}

void evaluate(Session& session, Diagnostics& diagnostics) {
  const Config& config = session.config;
  std::vector<EvaluationSet> sets = open_evaluation_sets(session, diagnostics);
  if (config.evaluate.datasets.empty())
    diagnostics.error(config.mark("evaluate"), "`evaluate.datasets` is missing",
                      "sources by name, with `metrics`");
  // The model is built for the examples that it is measured with; data.train may be elsewhere.
  if (!sets.empty()) session.train_data = std::make_shared<DeclaredSource>(sets.front().source->features());
  check_layout_rules(session, diagnostics);
  const std::unique_ptr<Graph> graph = build_evaluation(session, diagnostics);
  diagnostics.throw_if_errors();
  Program program = compile(session, *graph);
  check_memory(session, {&program}, false, sets);
  const std::vector<ChosenWeights> chosen =
      choose_weights(config, config.evaluate.checkpoint, "evaluate.checkpoint");
  std::vector<std::pair<std::string, std::string>> fields{{"weights", descriptions(chosen)}};
  for (const EvaluationSet& set : sets)
    fields.emplace_back("examples of evaluate.datasets." + set.name, fmt::to_string(set.source->examples()));
  check_same_run(session, {&program}, std::move(fields));
  show_device_notes(session);
  VariableStore variables(*session.backend, program.mesh, program.variables, variable_store_options(session));
  Evaluator evaluator(session, std::move(sets), std::move(program), variables);
  for (const ChosenWeights& weights : chosen) {
    load_weights(weights, session, variables);
    const std::string title = title_of(weights, config);
    const auto results = evaluator.run(weights.step);
    if (!session.processes->is_first()) continue;
    for (const Evaluation& result : *results) {
      fmt::print(stderr, "{}:{}\n", title, evaluation_line(result));
      fmt::print("{}\n", json_line(evaluation_numbers(weights.step, result), {{"dataset", result.dataset}}));
    }
  }
}

std::string evaluation_line(const Evaluation& evaluation) {
  std::string line = fmt::format("  {}", evaluation.dataset);
  for (const auto& [name, value] : evaluation.metrics)
    line +=
        fmt::format("  {} {}", name, is_count(name) ? with_thousands(value) : fmt::format("{:.4f}", value));
  return line + fmt::format("  ({} examples in {})", with_thousands(static_cast<double>(evaluation.examples)),
                            duration_text(evaluation.seconds));
}

}  // namespace mtf
