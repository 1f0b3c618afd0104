// Adam (Kingma and Ba 2015, algorithm 1), with bias correction, with decoupled weight decay (Loshchilov and Hutter
// 2019), and, as BERT has it, without (Devlin et al. 2018).
#include "trainer/optimizer/optimizers/adam.h"

#include "engine/base/reproducible_math.h"

namespace mtf {
namespace {

std::string first_moment_of(const std::string& weight) { return weight + "/adam_m"; }
std::string second_moment_of(const std::string& weight) { return weight + "/adam_v"; }

}  // namespace

std::function<double(int64_t step)> bias_correction(double beta) {
  return [beta](int64_t step) { return 1 / (1 - reproducible::pow(beta, static_cast<double>(step) + 1)); };
}

Tensor AdamBase::adam(UpdateContext& context, const WeightUpdate& w, const BiasCorrection& correction) const {
  const double scale = scale_of(w.variable);
  const AdamOptions options{.beta1 = beta1,
                            .beta2 = beta2,
                            .epsilon = epsilon / scale,
                            .weight_decay = w.decay / scale,
                            .first_element = context.first_element()};
  const Variable& m = context.slot(first_moment_of(w.variable.name), w.variable.shape);
  const Variable& v =
      context.slot(second_moment_of(w.variable.name), w.variable.shape, SlotValues::kPositive);
  const AdamUpdate u = adam_update(w.weight, w.gradient, context.stored(m), context.stored(v),
                                   context.learning_rate(scale), options, correction);
  context.assign(m, u.first_moment);
  context.assign(v, u.second_moment);
  return u.weight;
}

Tensor AdamBase::corrected_adam(UpdateContext& context, const WeightUpdate& w) const {
  const Tensor second = context.scalar_of_slot(second_moment_of(w.variable.name),
                                               "optimizer/second_moment_correction", bias_correction(beta2));
  const Tensor first = context.scalar_of_slot(first_moment_of(w.variable.name),
                                              "optimizer/first_moment_correction", bias_correction(beta1));
  return adam(context, w, {first, second});
}

void describe_adam(config::Visitor& visit, AdamBase& options, const char* beta1) {
  visit("beta1", options.beta1, beta1, kDecayRate);
  visit("beta2", options.beta2, "decay of the mean of squared gradients", kDecayRate);
  visit("epsilon", options.epsilon, "added to the root of the second moment", config::positive);
  describe_scaled(visit, options);
}

void describe_scaled(config::Visitor& visit, ScaledSteps& options) {
  visit(
      "scaled_steps", options.scaled_steps,
      "steps of embeddings, learned positions and queries are as long as in models whose embeddings have "
      "variance 1 / d_model and whose queries are scaled after their projection, for which rates of Adam are "
      "usually given; false: all weights take steps of one length, as in Mesh TensorFlow");
  describe_common(visit, options);
}

namespace {

struct Adam final : AdamBase {
  static constexpr std::string_view type_name = "adam";
  static constexpr std::array common_names = {CommonName{"rmsprop", "`adam`, or `{type: adam, beta1: 0}`"}};

  Tensor update(UpdateContext& context, const WeightUpdate& w) const override {
    return corrected_adam(context, w);
  }
};

/// Adam with a weight decay from the start.
struct AdamW final : AdamBase {
  static constexpr std::string_view type_name = "adamw";
  static constexpr std::array common_names = {CommonName{"adam_w", "`adamw`"}};
  AdamW() { weight_decay = 0.01; }

  Tensor update(UpdateContext& context, const WeightUpdate& w) const override {
    return corrected_adam(context, w);
  }
};

struct AdamWeightDecay final : AdamBase {
  static constexpr std::string_view type_name = "adam_weight_decay";
  static constexpr std::array common_names = {CommonName{"bert_adam", "`adam_weight_decay`"}};
  AdamWeightDecay() {
    epsilon = 1e-6;
    scaled_steps = false;
  }

  Tensor update(UpdateContext& context, const WeightUpdate& w) const override { return adam(context, w, {}); }
};

void describe(config::Visitor& visit, Adam& options) {
  describe_adam(visit, options, "decay of the mean of gradients");
}
void describe(config::Visitor& visit, AdamW& options) {
  describe_adam(visit, options, "decay of the mean of gradients");
}
void describe(config::Visitor& visit, AdamWeightDecay& options) {
  describe_adam(visit, options, "decay of the mean of gradients; no bias correction");
}

const config::Registration<OptimizerOptions, Adam> adam;
const config::Registration<OptimizerOptions, AdamW> adamw;
const config::Registration<OptimizerOptions, AdamWeightDecay> adam_weight_decay;

}  // namespace
}  // namespace mtf
