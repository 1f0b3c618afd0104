#include "trainer/session/evaluation_graph.h"

#include <fmt/format.h>

#include "engine/ops/binary.h"
#include "engine/ops/reduce.h"
#include "trainer/session/model_inputs.h"

namespace mtf {
namespace {

void check_requested(const ModelOutput& output, const std::map<std::string, Mark>& requested) {
  const auto binary = requested.find("f1_binary");
  if (binary != requested.end() && output.classes && output.classes->size != 2) {
    throw Error(
        ErrorKind::kConfig, binary->second,
        fmt::format("`f1_binary` is that of class 1 of two, and the model has {}", output.classes->size),
        "`f1`, the mean over the classes, or `f1_micro`");
  }
  const auto top_5 = requested.find(std::string(kTop5Accuracy));
  if (top_5 == requested.end() || output.metrics.contains(top_5->first)) return;
  throw Error(ErrorKind::kConfig, top_5->second,
              fmt::format("`{}` is 1 for any model of {} classes", top_5->first, output.classes->size),
              fmt::format("it tells something of models with more than {} classes", kTop));
}

}  // namespace

EvaluationGraph build_evaluation(const Model& model, const std::vector<Feature>& features, int64_t batch_size,
                                 const EvaluationGraphOptions& options) {
  auto graph = std::make_unique<Graph>();
  use_weight_copies(*graph, options.copies);
  const Dimension batch{std::string(kBatch), batch_size};
  const Features inputs = add_inputs(*graph, model, model.features(), features, batch_size, Mode::kEvaluate);
  Context context(*graph, Mode::kEvaluate, options.precision, batch);
  context.set_averaged(options.averaged);
  context.set_expert_parts(options.expert_parts);
  context.set_loss_chunks(options.loss_chunks);
  describe_features(features, context);
  const ModelOutput output = model.build(context, inputs);
  check_requested(output, options.requested);
  const Tensor weights = graph->input(std::string(kWeightsInput), {batch});
  const Tensor zeros = graph->constant(0, DType::kFloat32, {batch});
  // Selected, not only multiplied, since the values of padding rows may not be finite.
  const auto counted = [&](const Tensor& x) {
    return where(greater(weights, graph->constant(0)), multiply(weights, x), zeros);
  };
  const auto sum = [&](const Tensor& x) { return reduce_sum(counted(x), Shape{}); };
  const Tensor examples = reduce_sum(weights, Shape{});
  for (const auto& [name, metric] : output.metrics) {
    if (metric.on_request && !options.requested.contains(name)) continue;
    if (metric.total == MetricTotal::kMaximum) {
      graph->set_output("maximum/" + name, reduce_max(counted(metric.value), Shape{}));
      continue;
    }
    graph->set_output("sum/" + name, sum(metric.value));
    if (metric.total == MetricTotal::kMean)
      graph->set_output("weight/" + name, metric.weight ? sum(metric.weight) : examples);
  }
  graph->set_output("examples", examples);
  if (options.keep_predictions && output.classification) {
    graph->set_output(kLabels, output.classification->label);
    graph->set_output(kPredictions, output.classification->prediction);
    graph->set_output(kProbabilities, output.classification->probability);
    graph->set_output(kClasses, graph->constant(static_cast<double>(output.classes->size), DType::kInt32));
  }
  if (options.keep_predictions) {
    for (const auto& [name, tensor] : output.predictions) graph->set_output(kExample + name, tensor);
  }
  if (output.tokens) graph->set_output("tokens", sum(output.tokens));
  return {std::move(graph), output.classes};
}

std::unique_ptr<Graph> build_prediction(const Model& model, const std::vector<Feature>& features,
                                        int64_t batch_size, const PredictionGraphOptions& options) {
  auto graph = std::make_unique<Graph>();
  use_weight_copies(*graph, options.copies);
  const Features inputs =
      add_inputs(*graph, model, model.features_of_prediction(), features, batch_size, Mode::kEvaluate);
  Context context(*graph, Mode::kEvaluate, options.precision, {std::string(kBatch), batch_size});
  context.set_expert_parts(options.expert_parts);
  describe_features(features, context);
  for (const auto& [name, tensor] : model.predict(context, inputs).predictions) {
    if (name != "probabilities" || options.keep_probabilities) graph->set_output(kExample + name, tensor);
  }
  return graph;
}

}  // namespace mtf
