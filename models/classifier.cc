// One label for each example: a list of layers from the input to logits, softmax cross-entropy, accuracy.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/reduce.h"
#include "engine/ops/top_k.h"
#include "engine/ops/unary.h"
#include "models/loss.h"
#include "models/missing_labels.h"
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
  std::optional<int64_t> ignore_index;
  std::vector<double> class_weights;

  std::unique_ptr<Model> make(Diagnostics& diagnostics) const override;
};

/// The dimension that the last layer makes is that of the classes. Labels: int32, the dimensions of the
/// logits without the classes. Loss: mean over the examples of the cross-entropy with smoothed labels, in
/// training plus z_loss * log_z^2. Where the data mix rows, it is weight * loss(labels) + (1 - weight) *
/// loss(labels_other). With ignore_index it is the mean over the labels of the batch that are another number, and with
/// class_weights the mean with the weights of their classes.
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
  bool labels_may_lack() const override { return options_.ignore_index.has_value(); }
  std::optional<int64_t> missing_label() const override { return options_.ignore_index; }
  bool labels_have_weights() const override { return labels_may_lack() || !options_.class_weights.empty(); }
  Tensor label_weights(const Tensor& labels) const override;
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
  void check_class_weights(const Dimension& classes) const;
  /// Sets the loss where labels have weights. Throws Error (kConfig) where the data mix rows.
  void add_loss_of_labels(const Context& context, const Features& features, const Tensor& labels,
                          const Tensor& weights, ModelOutput& output) const;
  /// Sets the loss where all places count equally.
  void add_mean_loss(const Context& context, const Features& features, const Tensor& labels,
                     ModelOutput& output) const;
  Tensor losses(const Context& context, const Tensor& target, const ModelOutput& output) const;
  /// Adds what only evaluation asks for. counts: null where each place has a label.
  static void add_evaluation(const Context& context, const Tensor& labels, const Tensor& counts,
                             ModelOutput& output);

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
  visit("ignore_index", options.ignore_index,
        "the number in the place of a label that says that there is none, such as 255 for pixels that nobody "
        "labelled: it counts neither in the loss nor in metrics; none by default");
  visit("class_weights", options.class_weights,
        "how much a label of each class counts in the loss, a number for each class: the loss is the sum of "
        "weight * loss over the batch, divided by the sum of the weights; none: all count equally",
        config::non_negative);
  visit.check([&options](const config::Report& report) {
    if (!options.class_weights.empty() && std::ranges::max(options.class_weights) == 0)
      report.error("class_weights", "no class counts", "a number above 0 for some of them");
    if (!options.class_weights.empty() && options.label_smoothing > 0)
      report.error("class_weights",
                   "`label_smoothing` spreads a part of each label over classes of other weights",
                   "one of both");
  });
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

void Classifier::check_class_weights(const Dimension& classes) const {
  const size_t weights = options_.class_weights.size();
  if (weights == 0 || weights == static_cast<size_t>(classes.size)) return;
  throw Error(
      ErrorKind::kConfig, layers_.mark(),
      fmt::format("`class_weights` has {} numbers, and the model has {} classes", weights, classes.size),
      "one for each class, in the order of their numbers");
}

Tensor Classifier::label_weights(const Tensor& labels) const {
  if (options_.class_weights.empty()) return Model::label_weights(labels);
  const Tensor weights = class_weights(labels, options_.class_weights);
  return options_.ignore_index ? multiply(weights, has_label(labels, options_.ignore_index)) : weights;
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
  check_class_weights(*output.classes);
  const auto scope = context.graph().scope("loss", layers_.mark());
  if (!labels_have_weights()) {
    add_mean_loss(context, features, labels, output);
    if (!context.training()) add_evaluation(context, labels, {}, output);
    return output;
  }
  Tensor known = labels, counts;
  if (options_.ignore_index) {
    counts = has_label(labels, options_.ignore_index);
    const Tensor none = context.graph().constant(-1, labels.dtype(), labels.shape());
    known = where(greater(counts, context.graph().constant(0)), labels, none);
  }
  add_loss_of_labels(context, features, known, label_weights(labels), output);
  if (!context.training()) add_evaluation(context, known, counts, output);
  return output;
}

Tensor Classifier::losses(const Context& context, const Tensor& target, const ModelOutput& output) const {
  return weighted_loss(options_.loss, {.prediction = output.logits,
                                       .target = target,
                                       .classes = output.classes->name,
                                       .label_smoothing = options_.label_smoothing,
                                       .z_loss = context.training() ? options_.z_loss : 0});
}

void Classifier::add_loss_of_labels(const Context& context, const Features& features, const Tensor& labels,
                                    const Tensor& weights, ModelOutput& output) const {
  if (context.training() && features.contains(options_.labels.text + kOther)) {
    const std::string_view key = options_.ignore_index ? "ignore_index" : "class_weights";
    throw Error(ErrorKind::kConfig, layers_.mark(),
                fmt::format("the data mix examples, and `{}` is for labels of one example each", key),
                fmt::format("`data.augment` without mixup and cutmix, or no `{}`", key));
  }
  add_labelled_loss(context, losses(context, labels, output), weights, output);
  output.class_losses.front().z_loss = options_.z_loss;
}

void Classifier::add_mean_loss(const Context& context, const Features& features, const Tensor& labels,
                               ModelOutput& output) const {
  const auto loss_of = [&](const Tensor& target) {
    return mean_of_examples(context, losses(context, target, output));
  };
  Tensor mean = loss_of(labels);
  const auto other = features.find(options_.labels.text + kOther),
             weight = features.find(options_.labels.text + kWeight);
  if (context.training() && other != features.end() && weight != features.end()) {
    const Tensor rest = scalar_add(scalar_multiply(weight->second, -1), 1);
    mean = add(multiply(mean, weight->second), multiply(loss_of(other->second), rest));
  }
  output.metrics["loss"] = {mean};
  output.loss = reduce_mean(mean, Shape{});
  output.class_losses = {
      {.logits = output.logits,
       .classes = output.classes->name,
       .scale = static_cast<double>(context.batch().size) / static_cast<double>(labels.shape().size()),
       .z_loss = options_.z_loss}};
}

void Classifier::add_evaluation(const Context& context, const Tensor& labels, const Tensor& counts,
                                ModelOutput& output) {
  const auto share = [&](const Tensor& hit) -> Metric {
    if (counts) return share_of_labels(context, hit, counts);
    return {mean_of_examples(context, cast(hit, DType::kFloat32))};
  };
  const std::string& classes = output.classes->name;
  output.classification = classification_of(output.logits, *output.classes, labels);
  output.metrics["accuracy"] = share(equal(output.classification->prediction, labels));
  if (output.classes->size <= kTop) return;
  const Dimension rank{"_rank", kTop};
  const Tensor best = top_k(output.logits, classes, rank).indices;
  Metric top = share(reduce_any(equal(best, labels), rank));
  top.on_request = true;
  output.metrics[std::string(kTop5Accuracy)] = top;
}

std::unique_ptr<Model> ClassifierOptions::make(Diagnostics& diagnostics) const {
  return std::make_unique<Classifier>(*this, diagnostics);
}

const config::Registration<ModelOptions, ClassifierOptions> classifier;

}  // namespace
}  // namespace mtf
