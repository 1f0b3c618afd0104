// Builds the graph of the training step: forward, backward, update.
//
//   TrainStep step = build_train_step(*model, source->features(), options);
//   // inputs: each feature of the model, step.scalars; outputs: loss, grad_norm, finite, tokens (for texts),
//   // loss/NAME and report/NAME (what layers add)
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "data/source.h"
#include "layers/context.h"
#include "models/model.h"
#include "trainer/config/config.h"
#include "trainer/optimizer/update.h"

namespace mtf {

struct TrainStepOptions {
  int64_t batch_size = 1;
  /// Microbatch j has the examples i * microbatches + j (docs/numerics.md "Microbatches"). Loss and gradients
  /// are sums over the microbatches, with each loss divided by their number.
  int64_t microbatches = 1;
  int64_t loss_chunks = 1;  ///< Context::loss_chunks(); 1 with keep_prediction
  Precision precision;
  int64_t expert_parts = 1;  ///< Context::expert_parts
  std::vector<std::string> trainable = {".*"};
  std::vector<OptimizerRule> rules = {};  ///< those of the optimizer, of which some freeze variables
  /// The decay of the running means for the output report/gradient_noise_scale; needs microbatches.
  std::optional<double> noise_scale_decay = {};
  /// Layers that are recomputed in the backward pass; none with `auto`.
  Recompute recompute = RecomputeWord::kNone;
  /// Factors of the losses that layers add, by name; a loss without a factor counts once.
  config::Named<double> loss_weights = {};
  /// Their places in the configuration, for messages.
  Mark trainable_mark = {}, rules_mark = {}, recompute_mark = {}, microbatches_mark = {},
       loss_chunks_mark = {}, loss_weights_mark = {};
  /// The optimizer's update. nullopt: the graph has no update but the gradients as outputs grad/VARIABLE.
  std::optional<UpdateOptions> update;
  /// Without `update`: adds the outputs that an update elsewhere needs, tokens, and the sums of squares of
  /// the gradients as square/0, square/1, ...
  bool keep_tokens = false;
  bool keep_squares = false;
  /// Adds the prediction as output/logits.
  bool keep_prediction = false;
  /// Adds the tensors whose names match one of these patterns as outputs tensor/NAME.
  std::vector<std::string> keep = {};
};

struct TrainStep {
  std::unique_ptr<Graph> graph;
  std::vector<StepScalar> scalars;
  std::optional<Dimension> classes;
  std::vector<std::string> warnings;
  std::vector<std::string> notes;
  std::vector<std::string> batch_statistics;  ///< layers whose results microbatches change, by scope path
  std::vector<std::string> statistics;        ///< variables that only the layers themselves move
  std::vector<AppliedLayer> layers;           ///< those that `train.recompute` can name
};

/// Context::expert_parts of these layouts.
int64_t expert_parts(const Layouts& layouts);

/// Returns the options of a configuration, with one microbatch for `train.microbatches: auto`. `total_steps` is
/// the length of the run, for schedules.
TrainStepOptions train_step_options(const Config& config, const Layouts& layouts, int64_t total_steps);

/// Returns "the batch statistics of stage_1/norm_1 and 5 more layers" for TrainStep::batch_statistics, which has
/// at least one layer.
std::string batch_statistics_text(const std::vector<std::string>& layers);

/// Builds the training step. Throws Error when the model does not fit the features, or with microbatches when
/// a variable has no gradient.
TrainStep build_train_step(const Model& model, const std::vector<Feature>& features,
                           const TrainStepOptions& options);

/// True if training moves the variable: `train.trainable` matches it, and no rule of the optimizer freezes it.
bool is_trained(const std::string& variable, const Config& config);

/// Returns the running means of weights (train.ema_decay) that evaluations within a training run use. Null:
/// none, since there are no running means or the mode restores its own checkpoint.
AverageNames averaged_weights(const Config& config);

}  // namespace mtf
