#include "models/model.h"

#include <algorithm>
#include <array>

#include "engine/base/check.h"
#include "engine/base/reproducible_math.h"
#include "engine/ops/cast.h"
#include "engine/ops/softmax.h"
#include "engine/ops/top_k.h"
#include "engine/ops/transpose.h"

namespace mtf {

namespace {

constexpr std::array<std::string_view, 8> kClassMetrics = {
    "precision", "recall", "f1", "f1_micro", "f1_binary", "mean_iou", "matthews", "confusion_matrix"};
constexpr std::array<std::string_view, 7> kPredictionMetrics = {
    "pearson", "spearman", "entity_precision", "entity_recall", "entity_f1", "exact_match", "answer_f1"};

template <class Names>
bool is_among(const Names& names, std::string_view metric) {
  return std::ranges::find(names, metric) != names.end();
}

}  // namespace

ModelOutput Model::predict(Context&, const Features&) const {
  MTF_CHECK(false, "the model has no predictions for examples without targets");
}

void add_class_predictions(const Context& context, ModelOutput& output) {
  const Dimension& classes = *output.classes;
  const Shape batch{context.batch()};
  const Shape examples = batch + (output.logits.shape() - batch - classes);
  const Tensor probabilities = softmax(cast(output.logits, DType::kFloat32), classes.name);
  output.predictions["prediction"] = transpose(argmax(output.logits, classes.name), examples);
  output.predictions["probabilities"] = transpose(probabilities, examples + classes);
}

bool greater_is_better(std::string_view metric) {
  constexpr std::array<std::string_view, 7> falling = {
      "loss", "perplexity", "ter", "rejected", "mean_label", "num_eval_tokens", "max_targets_length"};
  return !is_among(falling, metric);
}

bool measured_by_default(std::string_view metric) {
  constexpr std::array<std::string_view, 7> on_request = {
      kTop5Accuracy, "neg_log_perplexity", "mean_label", "num_eval_tokens", "max_targets_length", "pearson",
      "spearman"};
  return !is_class_metric(metric) && !is_among(on_request, metric);
}

std::vector<std::string> class_metrics() { return {kClassMetrics.begin(), kClassMetrics.end()}; }

bool is_class_metric(std::string_view metric) { return is_among(kClassMetrics, metric); }

bool is_prediction_metric(std::string_view metric) { return is_among(kPredictionMetrics, metric); }

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
