#include "trainer/train_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "engine/core/nearest.h"
#include "trainer/memory/check.h"

namespace mtf {
namespace {

/// The metric that `key` names must be measured: "DATASET/METRIC".
void check_metric(const Config& config, const std::vector<EvaluationSet>& sets, const std::string& metric,
                  const std::string& key, Diagnostics& diagnostics) {
  std::vector<std::string> measured;
  for (const EvaluationSet& set : sets) {
    for (const std::string& name : set.metrics) measured.push_back(set.name + "/" + name);
  }
  if (std::ranges::find(measured, metric) != measured.end()) return;
  diagnostics.error(config.mark(key), fmt::format("`{}`: no evaluation measures `{}`", key, metric),
                    measured.empty() ? "`evaluate.datasets` with `metrics`" : did_you_mean(metric, measured));
}

void check_labels(const Session& session, const std::optional<Dimension>& classes,
                  const std::vector<EvaluationSet>& sets) {
  if (!classes) return;
  session.train_data->check_labels(classes->size);
  for (const EvaluationSet& set : sets) set.source->check_labels(classes->size);
}

}  // namespace

TrainPlan make_train_plan(Session& session, Diagnostics& diagnostics) {
  TrainPlan plan;
  const Config& config = session.config;
  if (!diagnostics.has_errors()) plan.continuation = find_continuation(session.config, diagnostics);
  const TrainStepOptions options = train_step_options(
      config, session.layouts, planned_steps(session).value_or(std::numeric_limits<int64_t>::max()));
  std::optional<TrainStep> step = build_step(session, options, diagnostics);
  plan.evaluation_sets = open_evaluation_sets(session, diagnostics);
  if (!diagnostics.has_errors()) {
    if (config.train.patience)
      check_metric(config, plan.evaluation_sets, config.train.patience->metric, "train.patience.metric",
                   diagnostics);
    if (config.checkpoint.keep_best)
      check_metric(config, plan.evaluation_sets, config.checkpoint.keep_best->metric,
                   "checkpoint.keep_best.metric", diagnostics);
  }
  std::unique_ptr<Graph> evaluation;
  if (!plan.evaluation_sets.empty()) evaluation = build_evaluation(session, diagnostics);
  diagnostics.throw_if_errors();
  check_labels(session, step->classes, plan.evaluation_sets);
  plan.update = *options.update;
  plan.program = compile(session, *step->graph);
  std::vector<const Program*> programs{&plan.program};
  if (evaluation) {
    plan.evaluation = compile(session, *evaluation);
    programs.push_back(&*plan.evaluation);
  }
  step->graph.reset();
  plan.step = std::move(*step);
  check_memory(session, programs, true, plan.evaluation_sets);
  return plan;
}

}  // namespace mtf
