// Numbers for each example: a list of layers from the input to the target's dimensions.
#include <fmt/format.h>

#include "engine/ops/cast.h"
#include "engine/ops/reduce.h"
#include "engine/ops/transpose.h"
#include "models/loss.h"
#include "models/model.h"
#include "models/sequential.h"

namespace mtf {
namespace {

struct RegressionOptions final : ModelOptions, SequentialOptions {
  static constexpr std::string_view type_name = "regression";
  RegressionOptions() { input = "x"; }

  config::Name target = "y";
  LossOptions loss = "mean_squared_error";

  std::unique_ptr<Model> make(Diagnostics& diagnostics) const override;
};

/// Loss: the mean over all elements.
class Regression final : public Model {
 public:
  Regression(const RegressionOptions& options, Diagnostics& diagnostics);
  std::vector<std::string> features() const override { return {layers_.input(), options_.target.text}; }
  std::vector<std::string> optional_features() const override { return layers_.optional_features(); }
  std::vector<std::string> metrics() const override { return {"loss", "pearson", "spearman"}; }
  std::vector<std::string> outputs() const override { return {"logits", options_.target.text}; }
  ModelOutput build(Context& context, const Features& features) const override;
  std::vector<std::string> features_of_prediction() const override { return {layers_.input()}; }
  ModelOutput predict(Context& context, const Features& features) const override;

 private:
  RegressionOptions options_;
  Sequential layers_;
};

void describe(config::Visitor& visit, RegressionOptions& options) {
  describe_sequential(visit, options);
  visit("target", options.target, "the feature that is to be predicted", config::fixed_on_resume);
  describe_loss(visit, options.loss, LossTarget::kNumbers);
}

Regression::Regression(const RegressionOptions& options, Diagnostics& diagnostics)
    : options_(options), layers_(options, diagnostics) {}

ModelOutput Regression::predict(Context& context, const Features& features) const {
  ModelOutput output;
  output.logits = cast(layers_(context, features), DType::kFloat32);
  const Shape batch{context.batch()};
  output.predictions["prediction"] = transpose(output.logits, batch + (output.logits.shape() - batch));
  return output;
}

ModelOutput Regression::build(Context& context, const Features& features) const {
  const Tensor target = cast(layers_.feature(features, options_.target), DType::kFloat32);
  ModelOutput output;
  output.logits = cast(layers_(context, features), DType::kFloat32);
  if (!same_dimensions(output.logits.shape(), target.shape())) {
    throw Error(ErrorKind::kConfig, layers_.mark(),
                fmt::format("the layers make {}, but feature `{}` is {}", output.logits.shape().to_string(),
                            options_.target.text, target.shape().to_string()),
                "the last layer must make the dimensions of the target");
  }
  const auto scope = context.graph().scope("loss", layers_.mark());
  const Tensor losses = mean_of_examples(
      context, weighted_loss(options_.loss, {.prediction = output.logits, .target = target}));
  output.metrics["loss"] = {losses};
  output.loss = reduce_mean(losses, Shape{});
  output.numbers = output.logits;
  if (!context.training()) {
    output.predictions["prediction"] = transpose(output.logits, target.shape());
    output.predictions["target"] = target;
  }
  return output;
}

std::unique_ptr<Model> RegressionOptions::make(Diagnostics& diagnostics) const {
  return std::make_unique<Regression>(*this, diagnostics);
}

const config::Registration<ModelOptions, RegressionOptions> regression;

}  // namespace
}  // namespace mtf
