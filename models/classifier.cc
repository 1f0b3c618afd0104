// One label for each example: a list of layers from the input to logits, softmax cross-entropy, accuracy.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/reduce.h"
#include "engine/ops/top_k.h"
#include "engine/ops/unary.h"
#include "models/loss.h"
#include "models/model.h"
#include "models/sequential.h"

namespace mtf {
namespace {

struct ClassifierOptions final : ModelOptions, SequentialOptions {
  static constexpr std::string_view type_name = "classifier";
  static constexpr std::array common_names = {CommonName{"classification", "`classifier`"},
                                              CommonName{"mlp", "`classifier` or `regression`"},
                                              CommonName{"sequential", "`classifier` or `regression`"},
                                              CommonName{"feed_forward", "`classifier` or `regression`"}};
  static constexpr bool type_required = true;
  ClassifierOptions() { input = "image"; }

  config::Name labels = "labels";
  LossOptions loss = "cross_entropy";
  double label_smoothing = 0;
  double z_loss = 0;

  std::unique_ptr<Model> make(Diagnostics& diagnostics) const override;
};

/// The dimension that the last layer makes is that of the classes. Labels: int32, the dimensions of the
/// logits without the classes. Loss: mean over the examples of the cross-entropy with smoothed labels, in
/// training plus z_loss * log_z^2. Where the data mix rows, it is weight * loss(labels) + (1 - weight) *
/// loss(labels_other).
class Classifier final : public Model {
 public:
  Classifier(const ClassifierOptions& options, Diagnostics& diagnostics);
  std::vector<std::string> features() const override { return {layers_.input(), options_.labels.text}; }
  std::vector<std::string> optional_features() const override {
    std::vector<std::string> names = layers_.optional_features();
    names.insert(names.end(), {options_.labels.text + kOther, options_.labels.text + kWeight});
    return names;
  }
  std::string_view labels_feature() const override { return options_.labels.text; }
  std::vector<std::string> metrics() const override {
    std::vector<std::string> names{"loss", "accuracy", std::string(kTop5Accuracy)};
    std::ranges::copy(class_metrics(), std::back_inserter(names));
    return names;
  }
  ModelOutput build(Context& context, const Features& features) const override;
  std::vector<std::string> features_of_prediction() const override { return {layers_.input()}; }
  ModelOutput predict(Context& context, const Features& features) const override;

 private:
  /// Features of data that mix rows: the label of the other row, and the weight of the own label.
  static constexpr const char *kOther = "_other", *kWeight = "_weight";

  Dimension classes(const Context& context, const LayerTensor& logits) const;
  void check_labels(const Tensor& labels, const LayerTensor& logits, const Dimension& classes) const;
  /// Adds what only evaluation asks for.
  static void add_evaluation(const Context& context, const Tensor& labels, ModelOutput& output);

  ClassifierOptions options_;
  Sequential layers_;
};

void describe(config::Visitor& visit, ClassifierOptions& options) {
  describe_sequential(visit, options);
  visit("labels", options.labels, "the feature with the numbers of the classes", config::fixed_on_resume);
  describe_loss(visit, options.loss, LossTarget::kClasses);
  visit("label_smoothing", options.label_smoothing, "part of the target that is spread over all classes",
        config::probability);
  visit("z_loss", options.z_loss, "factor of log_z^2, which keeps logits near zero; in training only",
        config::non_negative);
}

Classifier::Classifier(const ClassifierOptions& options, Diagnostics& diagnostics)
    : options_(options), layers_(options, diagnostics) {}

Dimension Classifier::classes(const Context& context, const LayerTensor& logits) const {
  const Shape made = context.made(logits);
  if (made.rank() != 1) {
    throw Error(
        ErrorKind::kConfig, layers_.mark(),
        fmt::format("the last layer of a classifier makes one dimension, the classes; here it makes {}",
                    made.to_string()),
        "end with `dense: {output: {classes: 10}}`");
  }
  return made[0];
}

void Classifier::check_labels(const Tensor& labels, const LayerTensor& logits,
                              const Dimension& classes) const {
  const Shape examples = logits.shape() - classes;
  if (is_floating(labels.dtype()))
    throw Error(
        ErrorKind::kConfig, options_.labels.mark.known() ? options_.labels.mark : layers_.mark(),
        fmt::format("feature `{}` is {} {}, and labels are the numbers of classes", options_.labels.text,
                    name_of(labels.dtype()), labels.shape().to_string()),
        fmt::format("whole numbers from 0 to {} of the dimensions {}, such as labels.astype(\"int32\") of "
                    "NumPy; numbers that are no classes are for `type: regression`",
                    classes.size - 1, examples.to_string()));
  if (same_dimensions(examples, labels.shape())) return;
  throw Error(
      ErrorKind::kConfig, layers_.mark(),
      fmt::format("logits are {}, but feature `{}` is {}", logits.shape().to_string(), options_.labels.text,
                  labels.shape().to_string()),
      "without the classes, logits must have the dimensions of the labels: contract the others (`over`)");
}

ModelOutput Classifier::predict(Context& context, const Features& features) const {
  ModelOutput output;
  const LayerTensor logits = layers_(context, features);
  output.logits = logits;
  output.classes = classes(context, logits);
  add_class_predictions(context, output);
  return output;
}

ModelOutput Classifier::build(Context& context, const Features& features) const {
  const Tensor& labels = layers_.feature(features, options_.labels);
  ModelOutput output;
  const LayerTensor logits = layers_(context, features);
  output.logits = logits;
  output.classes = classes(context, logits);
  check_labels(labels, logits, *output.classes);
  const auto scope = context.graph().scope("loss", layers_.mark());
  const auto loss_of = [&](const Tensor& target) {
    return mean_of_examples(
        context, weighted_loss(options_.loss, {.prediction = output.logits,
                                               .target = target,
                                               .classes = output.classes->name,
                                               .label_smoothing = options_.label_smoothing,
                                               .z_loss = context.training() ? options_.z_loss : 0}));
  };
  Tensor losses = loss_of(labels);
  const auto other = features.find(options_.labels.text + kOther),
             weight = features.find(options_.labels.text + kWeight);
  if (context.training() && other != features.end() && weight != features.end()) {
    const Tensor rest = scalar_add(scalar_multiply(weight->second, -1), 1);
    losses = add(multiply(losses, weight->second), multiply(loss_of(other->second), rest));
  }
  output.metrics["loss"] = {losses};
  output.loss = reduce_mean(losses, Shape{});
  output.class_losses = {
      {.logits = output.logits,
       .classes = output.classes->name,
       .scale = static_cast<double>(context.batch().size) / static_cast<double>(labels.shape().size()),
       .z_loss = options_.z_loss}};
  if (!context.training()) add_evaluation(context, labels, output);
  return output;
}

void Classifier::add_evaluation(const Context& context, const Tensor& labels, ModelOutput& output) {
  const auto share = [&](const Tensor& hit) { return mean_of_examples(context, cast(hit, DType::kFloat32)); };
  const std::string& classes = output.classes->name;
  output.classification = classification_of(output.logits, *output.classes, labels);
  output.metrics["accuracy"] = {share(equal(output.classification->prediction, labels))};
  if (output.classes->size > kTop) {
    const Dimension rank{"_rank", kTop};
    const Tensor best = top_k(output.logits, classes, rank).indices;
    output.metrics[std::string(kTop5Accuracy)] = {
        share(reduce_any(equal(best, labels), rank)), {}, MetricTotal::kMean, true};
  }
}

std::unique_ptr<Model> ClassifierOptions::make(Diagnostics& diagnostics) const {
  return std::make_unique<Classifier>(*this, diagnostics);
}

const config::Registration<ModelOptions, ClassifierOptions> classifier;

}  // namespace
}  // namespace mtf
