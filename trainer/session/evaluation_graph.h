// Builds the graphs of a run that only read its weights: the evaluation and the prediction of a batch.
//
//   EvaluationGraph evaluation = build_evaluation(*model, source->features(), 200, {precision});
//   // inputs: features, evaluation/weights [batch]; outputs: sum/METRIC, weight/METRIC, examples, tokens, and of
//   // classifiers that are asked for their predictions kLabels, kPredictions, kProbabilities [batch, ...], kClasses []
//   std::unique_ptr<Graph> prediction = build_prediction(*model, source->features(), 200, {precision});
//   // inputs: features without targets; outputs: kExample + NAME [batch, ...]
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/source.h"
#include "engine/ops/weight_copies.h"
#include "layers/context.h"
#include "models/model.h"

namespace mtf {

/// The name of the evaluation's input with the weights of the examples.
inline constexpr std::string_view kWeightsInput = "evaluation/weights";
/// The evaluation's output of ModelOutput::predictions is this, followed by the name.
inline const std::string kExample = "example/";
/// The evaluation's outputs of Classification, and the number of classes.
inline constexpr const char *kLabels = "example/label", *kPredictions = "example/prediction",
                            *kProbabilities = "example/probability", *kClasses = "classes";

struct EvaluationGraphOptions {
  Precision precision;
  AverageNames averaged = {};  ///< the running means that are read in place of weights
  /// Metrics that data sets ask for, with their places in the configuration; those with Metric::on_request are
  /// computed only if they are among these.
  std::map<std::string, Mark> requested = {};
  /// Adds what the model predicts for each example as outputs: Classification and ModelOutput::predictions.
  bool keep_predictions = false;
  int64_t expert_parts = 1;  ///< Context::expert_parts
  int64_t loss_chunks = 1;   ///< Context::loss_chunks
  std::optional<WeightCopyOptions> copies =
      {};  ///< which copies of weights products read (weight_conversions.h)
};

struct EvaluationGraph {
  std::unique_ptr<Graph> graph;
  std::optional<Dimension> classes = {};  ///< ModelOutput::classes
};

/// Builds the evaluation of a batch: sums over the examples of each metric's value and weight, multiplied by
/// the weight of the example. Throws Error (kConfig) when the model cannot measure what is requested.
EvaluationGraph build_evaluation(const Model& model, const std::vector<Feature>& features, int64_t batch_size,
                                 const EvaluationGraphOptions& options);

struct PredictionGraphOptions {
  Precision precision;
  int64_t expert_parts = 1;        ///< Context::expert_parts
  bool keep_probabilities = true;  ///< false: the output kExample + "probabilities" is left out
  std::optional<WeightCopyOptions> copies =
      {};  ///< which copies of weights products read (weight_conversions.h)
};

/// Builds what the model predicts for a batch (Model::predict): ModelOutput::predictions as outputs. Throws Error (kConfig)
/// when a feature is missing.
std::unique_ptr<Graph> build_prediction(const Model& model, const std::vector<Feature>& features,
                                        int64_t batch_size, const PredictionGraphOptions& options);

}  // namespace mtf
