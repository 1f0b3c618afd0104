#include "models/regression.h"

#include <fmt/format.h>

#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"

namespace mtf {

void describe(config::Visitor& visit, RegressionOptions& options) {
  describe_sequential(visit, options);
  visit("target", options.target, "the feature that is to be predicted", config::fixed_on_resume);
  describe_loss(visit, options.loss, {"mean_squared_error", "mean_absolute_error"});
}

Regression::Regression(const RegressionOptions& options, Diagnostics& diagnostics)
    : options_(options), layers_(options, diagnostics) {}

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
  const Tensor difference = subtract(output.logits, target);
  const Tensor losses = weighted_loss(options_.loss, [&](const std::string& name) {
    return mean_of_examples(context, name == "mean_squared_error" ? square(difference) : abs(difference));
  });
  output.metrics["loss"] = {losses};
  output.loss = reduce_mean(losses, Shape{});
  return output;
}

}  // namespace mtf
