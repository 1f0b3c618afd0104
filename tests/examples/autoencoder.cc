// The model `autoencoder`: a list of layers whose target is their own input.
#include <fmt/format.h>

#include "engine/ops/cast.h"
#include "engine/ops/reduce.h"
#include "models/loss.h"
#include "models/model.h"
#include "models/sequential.h"

namespace mtf {
namespace {

struct AutoencoderOptions final : ModelOptions, SequentialOptions {
  static constexpr std::string_view type_name = "autoencoder";
  AutoencoderOptions() { input = "x"; }
  LossOptions loss = "mean_squared_error";

  std::unique_ptr<Model> make(Diagnostics& diagnostics) const override;
};

void describe(config::Visitor& visit, AutoencoderOptions& options) {
  describe_sequential(visit, options);
  describe_loss(visit, options.loss, LossTarget::kNumbers);
}

/// Loss: the mean over all elements of the input.
class Autoencoder final : public Model {
 public:
  Autoencoder(const AutoencoderOptions& options, Diagnostics& diagnostics)
      : options_(options), layers_(options, diagnostics) {}
  std::vector<std::string> features() const override { return {layers_.input()}; }
  std::vector<std::string> metrics() const override { return {"loss"}; }

  ModelOutput build(Context& context, const Features& features) const override {
    const Tensor target = cast(layers_.feature(features, options_.input), DType::kFloat32);
    ModelOutput output;
    output.logits = cast(layers_(context, features), DType::kFloat32);
    if (!same_dimensions(output.logits.shape(), target.shape())) {
      throw Error(ErrorKind::kConfig, layers_.mark(),
                  fmt::format("the layers make {}, but feature `{}` is {}", output.logits.shape().to_string(),
                              layers_.input(), target.shape().to_string()),
                  "the last layer must make the dimensions of the input");
    }
    const auto scope = context.graph().scope("loss", layers_.mark());
    const Tensor losses = mean_of_examples(
        context, weighted_loss(options_.loss, {.prediction = output.logits, .target = target}));
    output.metrics["loss"] = {losses};
    output.loss = reduce_mean(losses, Shape{});
    return output;
  }

 private:
  AutoencoderOptions options_;
  Sequential layers_;
};

std::unique_ptr<Model> AutoencoderOptions::make(Diagnostics& diagnostics) const {
  return std::make_unique<Autoencoder>(*this, diagnostics);
}

const config::Registration<ModelOptions, AutoencoderOptions> autoencoder;

}  // namespace
}  // namespace mtf
