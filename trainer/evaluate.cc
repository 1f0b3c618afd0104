#include "trainer/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "engine/core/nearest.h"
#include "trainer/memory_check.h"
#include "trainer/progress.h"
#include "trainer/restore.h"

namespace mtf {
namespace {

void check_metrics(const EvaluationSet& set, const Model& model, const Mark& mark, Diagnostics& diagnostics) {
  const std::vector<std::string> known = model.metrics();
  for (const std::string& metric : set.metrics) {
    if (std::find(known.begin(), known.end(), metric) != known.end()) continue;
    diagnostics.error(
        mark, fmt::format("`evaluate.datasets.{}.metrics`: the model has no metric `{}`", set.name, metric),
        did_you_mean(metric, known));
  }
}

/// The model's features must look the same in both.
void check_features(const EvaluationSet& set, const Source& train, const Model& model, const Mark& mark,
                    Diagnostics& diagnostics) {
  for (const std::string& name : model.features()) {
    const auto named = [&](const Feature& f) { return f.name == name; };
    const auto expected = std::find_if(train.features().begin(), train.features().end(), named);
    const auto found = std::find_if(set.source->features().begin(), set.source->features().end(), named);
    if (expected == train.features().end()) continue;
    if (found == set.source->features().end()) {
      diagnostics.error(mark, fmt::format("`evaluate.datasets.{}` has no feature `{}`", set.name, name));
    } else if (*found != *expected) {
      diagnostics.error(mark, fmt::format("`evaluate.datasets.{}`: `{}` is {} {}, and in data.train {} {}",
                                          set.name, name, name_of(found->dtype), found->shape.to_string(),
                                          name_of(expected->dtype), expected->shape.to_string()));
    }
  }
}

}  // namespace

std::vector<EvaluationSet> open_evaluation_sets(const Session& session, Diagnostics& diagnostics) {
  std::vector<EvaluationSet> sets;
  const Config& config = session.config;
  for (const auto& [name, dataset] : config.evaluate.datasets) {
    const Mark mark = config.mark("evaluate.datasets." + name);
    EvaluationSet set{name, open_source(session, source_of(dataset), mark, diagnostics), metrics_of(dataset),
                      limit_of(dataset)};
    if (!session.model || !session.train_data || !set.source) continue;
    if (set.metrics.empty()) set.metrics = session.model->metrics();
    check_metrics(set, *session.model, config.mark("evaluate.datasets." + name + ".metrics"), diagnostics);
    check_features(set, *session.train_data, *session.model, mark, diagnostics);
    sets.push_back(std::move(set));
  }
  return sets;
}

Evaluator::Evaluator(std::vector<EvaluationSet> sets, Program program, int64_t batch_size, Backend& backend,
                     VariableStore& variables, const ExecutorOptions& options)
    : sets_(std::move(sets)),
      batch_size_(batch_size),
      executor_(std::move(program), backend, variables, options) {}

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
  const BatchStream stream(set.source, EvaluationBatches{.batch_size = batch_size_, .limit = set.limit});
  Prefetcher batches(stream);
  std::vector<double> sums(set.metrics.size(), 0);
  std::vector<double> weights(set.metrics.size(), 0);
  double examples = 0;
  while (const Batch* batch = batches.next()) {
    if (stop && stop()) return std::nullopt;
    feed_batch(executor_, *set.source, *batch);
    executor_.feed(std::string(kWeightsInput), batch->weights.data());
    executor_.run(static_cast<uint64_t>(step));
    for (size_t i = 0; i < sums.size(); ++i) {
      sums[i] += executor_.scalar("sum/" + set.metrics[i]);
      weights[i] += executor_.scalar("weight/" + set.metrics[i]);
    }
    examples += executor_.scalar("examples");
  }
  Evaluation result{set.name, {}, static_cast<int64_t>(examples), 0};
  for (size_t i = 0; i < sums.size(); ++i) {
    const double mean = weights[i] > 0 ? sums[i] / weights[i] : 0;
    result.metrics.emplace_back(set.metrics[i], finish_metric(set.metrics[i], mean));
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

void feed_batch(Executor& executor, const Source& source, const Batch& batch) {
  const std::vector<Feature>& features = source.features();
  for (size_t i = 0; i < features.size(); ++i) {
    if (executor.program().input(features[i].name) == kNoValue) continue;
    executor.feed(features[i].name, batch.feature(static_cast<int>(i)).data());
  }
}

Metrics evaluation_numbers(int64_t step, const Evaluation& evaluation) {
  Metrics numbers{{"step", step}};
  numbers.insert(numbers.end(), evaluation.metrics.begin(), evaluation.metrics.end());
  numbers.emplace_back("examples", evaluation.examples);
  numbers.emplace_back("seconds", evaluation.seconds);
  return numbers;
}

void evaluate(const Session& session, Diagnostics& diagnostics) {
  const Config& config = session.config;
  std::vector<EvaluationSet> sets = open_evaluation_sets(session, diagnostics);
  if (config.evaluate.datasets.empty())
    diagnostics.error(config.mark("evaluate"), "`evaluate.datasets` is missing",
                      "sources by name, with `metrics`");
  const std::unique_ptr<Graph> graph = build_evaluation(session, diagnostics);
  diagnostics.throw_if_errors();
  Program program = compile(session, *graph);
  check_memory(session, {&program}, false, sets);
  VariableStore variables(*session.backend, program.mesh, program.variables, config.run.check_replicas);
  CheckpointReader reader(find_checkpoint(config, config.evaluate.checkpoint, "evaluate.checkpoint"));
  restore_variables(reader, variables, Restore::kWeights);
  Evaluator evaluator(std::move(sets), std::move(program), evaluate_batch_size(config, session.layouts),
                      *session.backend, variables, executor_options(session));
  const int64_t step = reader.manifest().step;
  const auto results = evaluator.run(step);
  for (const Evaluation& result : *results) {
    fmt::print(stderr, "{}:{}\n", reader.path(), evaluation_line(result));
    fmt::print("{}\n", json_line(evaluation_numbers(step, result), {{"dataset", result.dataset}}));
  }
}

std::string evaluation_line(const Evaluation& evaluation) {
  std::string line = fmt::format("  {}", evaluation.dataset);
  for (const auto& [name, value] : evaluation.metrics) line += fmt::format("  {} {:.4f}", name, value);
  return line + fmt::format("  ({} examples in {})", with_thousands(static_cast<double>(evaluation.examples)),
                            duration_text(evaluation.seconds));
}

}  // namespace mtf
