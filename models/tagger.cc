// A tag for each word: a list of layers from the tokens of a row to the tags, softmax cross-entropy at those tokens that
// have a label.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "engine/ops/binary.h"
#include "models/loss.h"
#include "models/missing_labels.h"
#include "models/model.h"
#include "models/sequential.h"

namespace mtf {
namespace {

struct TaggerOptions final : ModelOptions, SequentialOptions {
  static constexpr std::string_view type_name = "tagger";
  static constexpr std::array common_names = {CommonName{"token_classification", "`tagger`"},
                                              CommonName{"ner", "`tagger`"}};
  static constexpr bool type_required = true;
  TaggerOptions() { input = "inputs"; }

  config::Name labels = "labels";
  LossOptions loss = "cross_entropy";
  double label_smoothing = 0;

  std::unique_ptr<Model> make(Diagnostics& diagnostics) const override;
};

void describe(config::Visitor& visit, TaggerOptions& options) {
  describe_sequential(visit, options);
  visit("labels", options.labels, "the feature with the numbers of the tags, below 0 where a token has none",
        config::fixed_on_resume);
  describe_loss(visit, options.loss, LossTarget::kClasses);
  visit("label_smoothing", options.label_smoothing, "part of the target that is spread over all tags",
        config::probability);
}

/// Labels: int32 [batch, length]. Loss: the mean over all labels of the batch from 0 on.
class Tagger final : public Model {
 public:
  Tagger(const TaggerOptions& options, Diagnostics& diagnostics)
      : options_(options), layers_(options, diagnostics) {}
  std::vector<std::string> features() const override { return {layers_.input(), options_.labels.text}; }
  std::vector<std::string> optional_features() const override { return layers_.optional_features(); }
  std::string_view labels_feature() const override { return options_.labels.text; }
  bool labels_may_lack() const override { return true; }
  std::vector<std::string> metrics() const override {
    std::vector<std::string> names{"loss", "accuracy", "entity_precision", "entity_recall", "entity_f1"};
    std::ranges::copy(class_metrics(), std::back_inserter(names));
    return names;
  }
  ModelOutput build(Context& context, const Features& features) const override;
  std::vector<std::string> features_of_prediction() const override { return {layers_.input()}; }
  ModelOutput predict(Context& context, const Features& features) const override;

 private:
  /// `tagged`: the feature with an entry for each token that gets a tag.
  Dimension tags(const Context& context, const LayerTensor& logits, const Features& features,
                 const config::Name& tagged) const;

  TaggerOptions options_;
  Sequential layers_;
};

Dimension Tagger::tags(const Context& context, const LayerTensor& logits, const Features& features,
                       const config::Name& tagged) const {
  const Shape made = context.made(logits);
  const Tensor& tokens = layers_.feature(features, tagged);
  if (made.rank() != 1 || !same_dimensions(logits.shape() - made, tokens.shape())) {
    throw Error(ErrorKind::kConfig, layers_.mark(),
                fmt::format("the layers make {}, but feature `{}` is {}", logits.shape().to_string(),
                            tagged.text, tokens.shape().to_string()),
                "end with `dense: {output: {tags: 9}}` on the tokens of a Transformer; for classes of pixels "
                "`type: classifier`, with `ignore_index` where some have none");
  }
  if (tokens.dtype() != DType::kInt32)
    throw Error(
        ErrorKind::kConfig, layers_.mark(),
        fmt::format("feature `{}` is {}, and tags are numbers of classes", tagged.text,
                    name_of(tokens.dtype())),
        fmt::format("int32: numbers from 0 to {}, and below 0 where a token has no tag", made[0].size - 1));
  return made[0];
}

ModelOutput Tagger::predict(Context& context, const Features& features) const {
  ModelOutput output;
  const LayerTensor logits = layers_(context, features);
  output.logits = logits;
  output.classes = tags(context, logits, features, options_.input);
  add_class_predictions(context, output);
  return output;
}

ModelOutput Tagger::build(Context& context, const Features& features) const {
  const Tensor& labels = layers_.feature(features, options_.labels);
  ModelOutput output;
  const LayerTensor logits = layers_(context, features);
  output.logits = logits;
  output.classes = tags(context, logits, features, options_.labels);
  const auto scope = context.graph().scope("loss", layers_.mark());
  const Tensor counts = has_label(labels, {});
  const Tensor losses = weighted_loss(options_.loss, {.prediction = output.logits,
                                                      .target = labels,
                                                      .classes = output.classes->name,
                                                      .label_smoothing = options_.label_smoothing});
  add_labelled_loss(context, losses, counts, output);
  if (context.training()) return output;
  output.classification = classification_of(output.logits, *output.classes, labels);
  output.metrics["accuracy"] =
      share_of_labels(context, equal(output.classification->prediction, labels), counts);
  return output;
}

std::unique_ptr<Model> TaggerOptions::make(Diagnostics& diagnostics) const {
  return std::make_unique<Tagger>(*this, diagnostics);
}

const config::Registration<ModelOptions, TaggerOptions> tagger;

}  // namespace
}  // namespace mtf
