#include "trainer/optimizer/optimizer_options.h"

namespace mtf {
namespace {

constexpr config::Bounds kDecayRate{0.0, 0.9999999};

void describe_common(config::Visitor& visit, OptimizerOptions& options) {
  visit("clip_norm", options.clip_norm,
        "all gradients are scaled down so that their common norm is at most this", config::positive);
  visit("weight_decay", options.weight_decay, "weights also move by -learning_rate * weight_decay * weight",
        config::non_negative);
  visit("no_decay", options.no_decay, "patterns of variables without weight decay");
}

void describe_scaled_steps(config::Visitor& visit, bool& scaled_steps) {
  visit("scaled_steps", scaled_steps,
        "steps of embeddings, learned positions and queries are as long as in models whose embeddings have "
        "variance 1 / d_model "
        "and whose queries are scaled after their projection, for which rates of Adam are usually given; "
        "false: all weights take steps of one length, as in Mesh TensorFlow");
}

}  // namespace

const OptimizerOptions& common_options(const Optimizer& optimizer) {
  return std::visit([](const auto& options) -> const OptimizerOptions& { return options; }, optimizer);
}

void describe(config::Visitor& visit, SgdOptions& options) { describe_common(visit, options); }

void describe(config::Visitor& visit, MomentumOptions& options) {
  visit("momentum", options.momentum, "v = learning_rate * gradient + momentum * v; weight -= v", kDecayRate);
  describe_common(visit, options);
}

void describe(config::Visitor& visit, AdamOptimizerOptions& options) {
  visit("beta1", options.beta1, "decay of the mean of gradients", kDecayRate);
  visit("beta2", options.beta2, "decay of the mean of squared gradients", kDecayRate);
  visit("epsilon", options.epsilon, "added to the root of the second moment", config::positive);
  describe_scaled_steps(visit, options.scaled_steps);
  describe_common(visit, options);
}

void describe(config::Visitor& visit, AdamWeightDecayOptions& options) {
  visit("beta1", options.beta1, "decay of the mean of gradients; no bias correction", kDecayRate);
  visit("beta2", options.beta2, "decay of the mean of squared gradients", kDecayRate);
  visit("epsilon", options.epsilon, "added to the root of the second moment", config::positive);
  describe_scaled_steps(visit, options.scaled_steps);
  describe_common(visit, options);
}

void describe(config::Visitor& visit, AdafactorOptimizerOptions& options) {
  visit("multiply_by_parameter_scale", options.multiply_by_parameter_scale,
        "steps are relative to the root mean square of the weight");
  visit("decay_rate", options.decay_rate, "decay of the mean of squared gradients");
  visit("beta1", options.beta1, "decay of the mean of updates; 0: no such slot", kDecayRate);
  visit("clipping_threshold", options.clipping_threshold,
        "updates are scaled down so that their root mean square is at most this; 0: not",
        config::non_negative, config::off_at("0"));
  visit("factored", options.factored, "second moments as outer products of row and column means");
  visit("epsilon1", options.epsilon1, "added to squared gradients", config::non_negative);
  visit("epsilon2", options.epsilon2, "least size of a weight for the step", config::positive);
  visit("min_dim_size_to_factor", options.min_dim_size_to_factor,
        "the two largest dimensions are factored when both have at least this size", config::positive);
  visit("stacked_dim_names", options.stacked_dim_names, "dimensions that stack independent weights");
  visit("exclude_from_parameter_scale", options.exclude_from_parameter_scale,
        "parts of names of variables whose steps are not relative");
  describe_common(visit, options);
}

}  // namespace mtf
