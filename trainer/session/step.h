// The graphs of a run: the training step (forward, backward, update) and the evaluation of a batch.
//
//   TrainStep step = build_train_step(*model, source->features(), options);
//   // inputs: each feature of the model, step.scalars; outputs: loss, grad_norm, finite, tokens (of texts),
//   // loss/NAME and report/NAME (what layers add)
//   std::unique_ptr<Graph> evaluation = build_evaluation(*model, source->features(), 200, {precision});
//   // inputs: features, evaluation/weights [batch]; outputs: sum/METRIC, weight/METRIC, examples, tokens
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "data/source.h"
#include "models/model.h"
#include "trainer/config/config.h"
#include "trainer/optimizer/update.h"

namespace mtf {

/// Name of the dimension of the examples.
inline constexpr std::string_view kBatch = "batch";

struct TrainStepOptions {
  int64_t batch_size = 1;
  /// Microbatch j works on the examples i * microbatches + j (docs/numerics.md "Microbatches"); loss and
  /// gradients are sums over them, each loss divided by their number.
  int64_t microbatches = 1;
  Precision precision;
  std::vector<std::string> trainable = {".*"};
  /// Layers that are computed again in the backward pass.
  std::variant<RecomputeWord, std::vector<std::string>> recompute = RecomputeWord::kNone;
  /// Factors of the losses that layers add, by name; 1 where there is none.
  config::Named<double> loss_weights = {};
  /// Where these stand in the configuration, for messages.
  Mark trainable_mark = {}, recompute_mark = {}, microbatches_mark = {}, loss_weights_mark = {};
  /// Nothing: no update; the gradients are outputs instead, as grad/VARIABLE.
  std::optional<UpdateOptions> update;
  /// Without `update`: also what an update elsewhere needs, the output tokens, and the sums of squares of the
  /// gradients as square/0, square/1, ...
  bool keep_tokens = false;
  bool keep_squares = false;
  /// Keeps the prediction as output/logits.
  bool keep_prediction = false;
  /// Keeps the tensors whose names match one of these patterns as tensor/NAME.
  std::vector<std::string> keep = {};
};

struct TrainStep {
  std::unique_ptr<Graph> graph;
  std::vector<StepScalar> scalars;
  std::optional<Dimension> classes;
  std::vector<std::string> warnings;
  std::vector<std::string> statistics;  ///< variables that the update moves without a gradient
};

/// The options that a configuration gives. `total_steps`: length of the run for schedules.
TrainStepOptions train_step_options(const Config& config, const Layouts& layouts, int64_t total_steps);

/// Throws Error when the model does not fit the features; under microbatching also when a variable gets no
/// gradient.
TrainStep build_train_step(const Model& model, const std::vector<Feature>& features,
                           const TrainStepOptions& options);

struct EvaluationGraphOptions {
  Precision precision;
  WeightFilter averaged = {};  ///< weights that are read as their running means
};

/// The weights that evaluations within a training run read as running means (train.ema_decay); null: none,
/// for there are none or the mode restores a checkpoint of its own.
WeightFilter averaged_weights(const Config& config);

/// Sums of each metric's value and weight over the examples, each taken as often as its weight says.
std::unique_ptr<Graph> build_evaluation(const Model& model, const std::vector<Feature>& features,
                                        int64_t batch_size, const EvaluationGraphOptions& options);

/// Numbers of ids of the features that hold ids.
std::map<std::string, int64_t> vocabulary_sizes(const std::vector<Feature>& features);

/// Name of the input with the weights of the examples of evaluation.
inline constexpr std::string_view kWeightsInput = "evaluation/weights";

}  // namespace mtf
