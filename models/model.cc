#include "models/model.h"

#include <algorithm>
#include <array>

#include "engine/base/reproducible_math.h"

namespace mtf {

bool greater_is_better(std::string_view metric) {
  constexpr std::array<std::string_view, 12> growing = {
      "accuracy",          kTop5Accuracy,        "precision", "recall", "f1",     "token_accuracy",
      "sequence_accuracy", "neg_log_perplexity", "bleu",      "chrf",   "chrf++", "dice"};
  return std::ranges::find(growing, metric) != growing.end();
}

bool measured_by_default(std::string_view metric) {
  constexpr std::array<std::string_view, 4> on_request = {"neg_log_perplexity", "mean_label",
                                                          "num_eval_tokens", "max_targets_length"};
  return metric != kTop5Accuracy && !is_class_metric(metric) &&
         std::ranges::find(on_request, metric) == on_request.end();
}

bool is_class_metric(std::string_view metric) {
  return metric == "precision" || metric == "recall" || metric == "f1" || !is_number(metric);
}

bool is_number(std::string_view metric) { return metric != "confusion_matrix"; }

bool is_count(std::string_view metric) {
  return metric == "num_eval_tokens" || metric == "max_targets_length";
}

double finish_metric(std::string_view metric, double mean) {
  return metric == "perplexity" ? reproducible::exp(mean) : mean;
}

std::unique_ptr<Model> make_model(const ModelChoice& choice, Diagnostics& diagnostics) {
  return choice.empty() ? nullptr : choice->make(diagnostics);
}

std::unique_ptr<Model> make_model(const config::Node& section, Diagnostics& diagnostics) {
  return make_model(config::parse<ModelChoice>(section, diagnostics, "model"), diagnostics);
}

}  // namespace mtf
