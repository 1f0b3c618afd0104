// Options of the optimizers (section `optimizer`). Formulas: optimizers.h.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/config/schema.h"
#include "trainer/optimizer/schedules.h"

namespace mtf {

/// What all optimizers have in common.
struct OptimizerOptions {
  std::optional<double> clip_norm;
  double weight_decay = 0;
  std::vector<std::string> no_decay = {"bias", "scale"};
};

struct SgdOptions : OptimizerOptions {
  static constexpr std::string_view type_name = "sgd";
  static constexpr std::array common_names = {CommonName{"gradient_descent", "`sgd`"}};
};

struct MomentumOptions : OptimizerOptions {
  static constexpr std::string_view type_name = "momentum";
  static constexpr std::array common_names = {CommonName{"sgd_momentum", "`momentum`"},
                                              CommonName{"nesterov", "`momentum`"}};
  double momentum = 0.9;
};

/// Adam with bias correction.
struct AdamOptimizerOptions : OptimizerOptions {
  static constexpr std::string_view type_name = "adam";
  static constexpr std::array common_names = {
      CommonName{"adamw",
                 "`{type: adam, weight_decay: 0.01}`, whose decay is apart from the gradients as AdamW's"},
      CommonName{"rmsprop", "`adam`, or `{type: adam, beta1: 0}`"}};
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  bool scaled_steps = true;
};

/// Adam without bias correction, as in BERT.
struct AdamWeightDecayOptions : OptimizerOptions {
  static constexpr std::string_view type_name = "adam_weight_decay";
  static constexpr std::array common_names = {CommonName{"bert_adam", "`adam_weight_decay`"}};
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
  bool scaled_steps = false;
};

struct AdafactorOptimizerOptions : OptimizerOptions {
  static constexpr std::string_view type_name = "adafactor";
  bool multiply_by_parameter_scale = true;
  DecayRate decay_rate = PowerDecay{};
  double beta1 = 0;
  double clipping_threshold = 1;  ///< 0: none
  bool factored = true;
  double epsilon1 = 1e-30;
  double epsilon2 = 1e-3;
  int64_t min_dim_size_to_factor = 128;
  std::vector<std::string> stacked_dim_names;
  std::vector<std::string> exclude_from_parameter_scale;
};

using Optimizer = std::variant<AdafactorOptimizerOptions, AdamOptimizerOptions, AdamWeightDecayOptions,
                               MomentumOptions, SgdOptions>;

/// The options that every optimizer has.
const OptimizerOptions& common_options(const Optimizer& optimizer);

void describe(config::Visitor& visit, SgdOptions& options);
void describe(config::Visitor& visit, MomentumOptions& options);
void describe(config::Visitor& visit, AdamOptimizerOptions& options);
void describe(config::Visitor& visit, AdamWeightDecayOptions& options);
void describe(config::Visitor& visit, AdafactorOptimizerOptions& options);

}  // namespace mtf
