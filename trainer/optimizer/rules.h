// Settings of single weights (optimizer.rules) and learning rates by layer (optimizer.layer_decay).
//
//   const RuleSettings settings = settings_of("transformer/embedding", optimizer->rules);
//   if (settings.frozen) ...
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/config/schema.h"
#include "trainer/optimizer/schedules.h"

namespace mtf {

/// What holds for the weights whose names match one of the patterns.
struct OptimizerRule {
  std::vector<std::string> match;
  std::vector<Schedule> learning_rate;  ///< product; empty: the rule says nothing of it
  std::optional<double> rate_scale;
  std::optional<double> weight_decay;
  std::optional<bool> frozen;
};
void describe(config::Visitor& visit, OptimizerRule& rule);

/// The settings of one weight: each from the first rule that matches the weight and has the setting.
struct RuleSettings {
  std::optional<size_t> rate;  ///< the rule with the learning rate; none: that of the run
  double rate_scale = 1;
  std::optional<double> weight_decay;
  bool frozen = false;
};
RuleSettings settings_of(const std::string& weight, const std::vector<OptimizerRule>& rules);

/// The factors of the learning rates of `weights`, which stand in the order of the model. A stack has the layers whose
/// names are equal up to a number behind `block_` or `layer_`. In a stack of n layers the factor of layer i (from 0) is
/// decay^(n - i). Weights outside stacks have decay^(n + 1), with the n of the largest stack, if they come before all
/// stacks or their names contain `embedding`, and otherwise 1. Clark et al., ELECTRA (2020), appendix B.
std::map<std::string, double> layer_rate_scales(const std::vector<std::string>& weights, double decay);

}  // namespace mtf
