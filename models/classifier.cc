#include "models/classifier.h"

#include <fmt/format.h>

#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/cross_entropy.h"
#include "engine/ops/reduce.h"
#include "engine/ops/top_k.h"

namespace mtf {

void describe(config::Visitor& visit, ClassifierOptions& options) {
  describe_sequential(visit, options);
  visit("labels", options.labels, "the feature with the numbers of the classes", config::fixed_on_resume);
  describe_loss(visit, options.loss, {"cross_entropy"});
  visit("label_smoothing", options.label_smoothing, "part of the target that is spread over all classes",
        config::probability);
  visit("z_loss", options.z_loss, "factor of log_z^2, which keeps logits near zero; in training only",
        config::non_negative);
}

Classifier::Classifier(const ClassifierOptions& options, Diagnostics& diagnostics)
    : options_(options), layers_(options, diagnostics) {}

Dimension Classifier::classes(const Context& context, const Tensor& logits, const Tensor& labels) const {
  const Shape made = context.made(logits);
  if (made.rank() != 1) {
    throw Error(
        ErrorKind::kConfig, layers_.mark(),
        fmt::format("the last layer of a classifier makes one dimension, the classes; here it makes {}",
                    made.to_string()),
        "end with `dense: {output: {classes: 10}}`");
  }
  if (!same_dimensions(logits.shape() - made, labels.shape())) {
    throw Error(
        ErrorKind::kConfig, layers_.mark(),
        fmt::format("logits are {}, but feature `{}` is {}", logits.shape().to_string(), options_.labels.text,
                    labels.shape().to_string()),
        "without the classes, logits must have the dimensions of the labels: contract the others (`over`)");
  }
  return made[0];
}

ModelOutput Classifier::build(Context& context, const Features& features) const {
  const Tensor& labels = layers_.feature(features, options_.labels);
  ModelOutput output;
  const Tensor prediction = layers_(context, features);
  output.logits = cast(prediction, DType::kFloat32);
  context.inherit_made(output.logits, prediction);
  output.classes = classes(context, output.logits, labels);
  const auto scope = context.graph().scope("loss", layers_.mark());
  const CrossEntropyOptions terms{.z_loss = context.training() ? options_.z_loss : 0,
                                  .label_smoothing = options_.label_smoothing};
  const Tensor losses = weighted_loss(options_.loss, [&](const std::string&) {
    return mean_of_examples(context,
                            softmax_cross_entropy(output.logits, labels, output.classes->name, terms).loss);
  });
  output.metrics["loss"] = {losses};
  output.loss = reduce_mean(losses, Shape{});
  if (!context.training()) {
    const Tensor hit = equal(argmax(output.logits, output.classes->name), labels);
    output.metrics["accuracy"] = {mean_of_examples(context, cast(hit, DType::kFloat32))};
  }
  return output;
}

}  // namespace mtf
