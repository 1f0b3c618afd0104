#include "trainer/optimizer/rules.h"

#include <algorithm>
#include <regex>

#include "engine/base/reproducible_math.h"
#include "trainer/optimizer/patterns.h"
#include "trainer/optimizer/update.h"

namespace mtf {

void describe(config::Visitor& visit, OptimizerRule& rule) {
  visit("match", rule.match, "patterns of variables", config::required);
  visit("learning_rate", rule.learning_rate,
        "a number, a schedule or their product, in place of that of the run", config::non_negative);
  visit("rate_scale", rule.rate_scale, "a factor of the learning rate", config::non_negative);
  visit("weight_decay", rule.weight_decay, "in place of the optimizer's `weight_decay` and `no_decay`",
        config::non_negative);
  visit("frozen", rule.frozen, "true: they keep their values, and have neither gradients nor slots");
  visit.check([&rule](const config::Report& report) {
    if (rule.learning_rate.empty() && !rule.rate_scale && !rule.weight_decay && !rule.frozen) {
      report.error("match", "the rule has no setting",
                   "`learning_rate`, `rate_scale`, `weight_decay` or `frozen`");
    }
  });
}

RuleSettings settings_of(const std::string& weight, const std::vector<OptimizerRule>& rules) {
  RuleSettings settings;
  std::optional<double> scale;
  std::optional<bool> frozen;
  for (size_t i = 0; i < rules.size(); ++i) {
    const OptimizerRule& rule = rules[i];
    if (!matches_any(weight, rule.match)) continue;
    if (!settings.rate && !rule.learning_rate.empty()) settings.rate = i;
    if (!scale) scale = rule.rate_scale;
    if (!settings.weight_decay) settings.weight_decay = rule.weight_decay;
    if (!frozen) frozen = rule.frozen;
  }
  settings.rate_scale = scale.value_or(1);
  settings.frozen = frozen.value_or(false);
  return settings;
}

namespace {

/// One layer of a stack.
struct StackedLayer {
  std::string stack;  ///< the name up to the number
  int64_t index = 0;
};

std::optional<StackedLayer> stacked_layer(const std::string& weight) {
  static const std::regex pattern("^(.*?(?:block|layer)_)(\\d{1,9})/");
  std::smatch match;
  if (!std::regex_search(weight, match, pattern)) return std::nullopt;
  return StackedLayer{match[1], std::stoll(match[2])};
}

}  // namespace

std::map<std::string, double> layer_rate_scales(const std::vector<std::string>& weights, double decay) {
  std::map<std::string, int64_t> sizes;
  int64_t largest = 0;
  for (const std::string& weight : weights) {
    const auto layer = stacked_layer(weight);
    if (!layer) continue;
    int64_t& size = sizes[layer->stack];
    size = std::max(size, layer->index + 1);
    largest = std::max(largest, size);
  }
  std::map<std::string, double> scales;
  bool below = true;
  for (const std::string& weight : weights) {
    int64_t exponent = 0;
    if (const auto layer = stacked_layer(weight)) {
      below = false;
      exponent = sizes.at(layer->stack) - layer->index;
    } else if (below || weight.find("embedding") != std::string::npos) {
      exponent = largest + 1;
    }
    scales[weight] = reproducible::pow(decay, static_cast<double>(exponent));
  }
  return scales;
}

}  // namespace mtf
