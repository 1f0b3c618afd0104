// A model: from the features of a batch to loss, logits and metrics.
//
//   ModelOutput output = model.build(context, {{"image", image}, {"labels", labels}});
//
// A batch of evaluation may be filled up with rows that do not count. Models therefore return metrics per
// example; the trainer sums value and weight over the examples that count and divides.
//
//   const std::unique_ptr<Model> model = make_model(section, diagnostics);   // section `model` of a configuration
//   diagnostics.throw_if_errors();
//
// A model's own source file registers it with its options:
//   struct ClassifierOptions final : ModelOptions {
//     static constexpr std::string_view type_name = "classifier";
//     std::unique_ptr<Model> make(Diagnostics& diagnostics) const override;
//   };
//   const config::Registration<ModelOptions, ClassifierOptions> classifier;
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/choice.h"
#include "layers/context.h"

namespace mtf {

/// The input of training (Context::scalar) of models whose labels have weights: the sum of the weights of the batch, above 0;
/// with microbatches that of the whole batch divided by their number.
inline constexpr std::string_view kNumberOfLabels = "number_of_labels";

/// Tensors of a batch by name; each has the dimension context.batch().
using Features = std::map<std::string, Tensor>;

/// How the values of the examples become one number. kMean: sum of value / sum of weight, then
/// finish_metric().
enum class MetricTotal { kMean, kSum, kMaximum };

struct Metric {
  Tensor value;        ///< [batch], float32
  Tensor weight = {};  ///< [batch], float32: what was counted, such as tokens; null: each example is one
  MetricTotal total = MetricTotal::kMean;
  bool on_request = false;  ///< expensive: computed only where a data set asks for it
};

/// The predictions of a classifier, for what is counted outside of the program. All have the shape of the labels.
struct Classification {
  Tensor label;        ///< [batch, ...], int32; below 0 where there is none
  Tensor prediction;   ///< int32: the class with the largest logit; of equal ones the first
  Tensor probability;  ///< float32: the softmax of the logits at the prediction
};

/// How logits of a model of classes or tokens become its loss: the mean over the batch of
///   scale * sum over the other dimensions of weights * cross_entropy(logits),
/// so that other targets can be given to the same logits (models/distillation.h).
struct ClassLoss {
  Tensor logits;        ///< [batch, ..., classes]
  std::string classes;  ///< the dimension of the logits that the softmax is over
  int64_t known = 0;    ///< so many of its entries are classes, the others padding; 0: all
  Tensor weights = {};  ///< float32, the logits without `classes`; null: each counts once
  double scale = 1;
  double z_loss = 0;
};

struct ModelOutput {
  Tensor loss;  ///< [], float32: the mean over the examples, or over the labels, of what training minimises
  /// [batch, ...], of the type of activations or float32: what the model predicts. Null: not all at once (token_loss.h).
  Tensor logits;
  /// By name. "loss" is always there; what only evaluation asks for ("accuracy") is computed in evaluation.
  std::map<std::string, Metric> metrics;
  std::optional<Dimension> classes;  ///< labels are 0 .. size-1
  Tensor tokens = {};                ///< [batch], float32: predicted tokens that count; null: not of texts
  /// Models that predict classes or tokens set these: the loss is their sum.
  std::vector<ClassLoss> class_losses = {};
  /// Models that predict numbers set these, float32 [batch, ...]: the loss is a mean over all of them.
  Tensor numbers = {};
  /// What classifiers add in evaluation.
  std::optional<Classification> classification = {};
  /// What is used of the examples outside of the program, [batch, ...] by name: in evaluation for metrics of all
  /// examples, and by predict() what the model predicts.
  std::map<std::string, Tensor> predictions = {};
  /// Outside of training, of models with an encoder: how much each target is made of each token of the inputs, float32
  /// [batch, length, memory_length]. Null: no attention tells it.
  Tensor alignment = {};
};

class TextDecoder;

class Model {
 public:
  virtual ~Model() = default;
  /// Names of the features that build() needs, for checks before any step.
  virtual std::vector<std::string> features() const = 0;
  /// Names of those that it reads where the data have them.
  virtual std::vector<std::string> optional_features() const { return {}; }
  /// So many positions can the features .._position of rows of `length` tokens name; nothing: it reads none.
  virtual std::optional<int64_t> positions(int64_t /*length*/) const { return std::nullopt; }
  /// The option that gives inputs and targets one embedding, such as "shared_embedding", where it is on; else empty.
  virtual std::string_view one_embedding() const { return {}; }
  /// The setting that counts the ends of sequence in `targets`, so that each text must be an inputs part and a targets part
  /// with one behind each: "loss_on_targets_only: true", or "type: delimited_lm". Empty: there is none.
  virtual std::string_view inputs_part_setting() const { return {}; }
  /// The feature with the labels of a model that sets ModelOutput::classes.
  virtual std::string_view labels_feature() const { return "labels"; }
  /// True if a number in the place of a label may say that there is none.
  virtual bool labels_may_lack() const { return false; }
  /// True if the loss is the mean with label_weights().
  virtual bool labels_have_weights() const { return labels_may_lack(); }
  /// The weights of labels in the loss, float32 of their shape: 0 where one lacks, otherwise 1 or what the model says.
  virtual Tensor label_weights(const Tensor& labels) const;
  /// True when each target belongs to the input at its place.
  virtual bool is_aligned() const { return false; }
  /// Names of the metrics in evaluation.
  virtual std::vector<std::string> metrics() const = 0;
  /// Names under which a user may ask for the prediction.
  virtual std::vector<std::string> outputs() const { return {"logits"}; }
  /// Inputs of the training step that build() asks the context for (Context::scalar).
  virtual std::vector<StepScalar> scalars() const { return {}; }
  /// Adds the model to the graph. Throws Error with a place in the configuration when a feature is missing or
  /// shapes do not fit.
  virtual ModelOutput build(Context& context, const Features& features) const = 0;
  /// Names of the features that predict() needs, none of which tells what is to be predicted; empty: it cannot be called.
  /// It also reads optional_features().
  virtual std::vector<std::string> features_of_prediction() const { return {}; }
  /// Adds the model without its loss. Of the output, `predictions` are set: `prediction`, int32 classes or float32 numbers,
  /// and of classes `probabilities`, float32 with the dimension of the classes last; or what the model's class says.
  virtual ModelOutput predict(Context& context, const Features& features) const;
  /// Null: the model writes no texts.
  virtual const TextDecoder* decoder() const { return nullptr; }
  /// Where labels may lack, the number that says so; nothing: all below 0 do.
  virtual std::optional<int64_t> missing_label() const { return std::nullopt; }
};

/// The options of a model (section `model`).
struct ModelOptions {
  virtual ~ModelOptions() = default;
  /// What is wrong with the layers goes to `diagnostics`.
  virtual std::unique_ptr<Model> make(Diagnostics& diagnostics) const = 0;
};
/// The model that `type:` chooses.
using ModelChoice = config::Choice<ModelOptions>;
/// The model, or nullptr for a type that was reported.
std::unique_ptr<Model> make_model(const ModelChoice& choice, Diagnostics& diagnostics);
std::unique_ptr<Model> make_model(const config::Node& section, Diagnostics& diagnostics);

/// Adds the predictions of classes to an output whose logits and classes are set: those with the largest logit, of equal
/// ones the first, and the probabilities of all.
void add_class_predictions(const Context& context, ModelOutput& output);

/// Whether a metric grows as the model gets better; losses and errors do not. Those of commands (`evaluate.datasets`) do.
bool greater_is_better(std::string_view metric);
/// Whether it is measured where no metrics are named: the others say the same in other words, tell of the
/// data alone (`mean_label`), or are of interest to some.
bool measured_by_default(std::string_view metric);
/// The metrics that are counted from the classes of all examples (Classification): precision, recall, f1 and mean_iou, which
/// are means over the classes, f1_micro, f1_binary, matthews and confusion_matrix.
std::vector<std::string> class_metrics();
bool is_class_metric(std::string_view metric);
/// Whether it is computed from what the model predicts for all examples (ModelOutput::predictions), outside of the
/// program: pearson and spearman, entity_precision, entity_recall and entity_f1, exact_match and answer_f1.
bool is_prediction_metric(std::string_view metric);
/// Whether it is a number; confusion_matrix only asks for files.
bool is_number(std::string_view metric);
/// The share of the examples whose label is among the kTop largest logits; of equal ones the first count. Only for
/// models of more classes.
inline constexpr std::string_view kTop5Accuracy = "top_5_accuracy";
inline constexpr int64_t kTop = 5;
/// Whether it is a whole number.
bool is_count(std::string_view metric);
/// The metric of this mean: its exponential for `perplexity`, else the mean itself.
double finish_metric(std::string_view metric, double mean);

}  // namespace mtf
