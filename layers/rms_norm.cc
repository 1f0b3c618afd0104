#include "engine/ops/normalization.h"
#include "layers/normalization.h"
#include "layers/registry.h"

namespace mtf {

Tensor rms_norm(Context& context, const Tensor& x, const std::string& dimension, double epsilon) {
  const Tensor scale = context.variable("scale", {find_dimension(x, dimension)}, Initializer::ones());
  return rms_norm(x, dimension, scale, epsilon);
}

namespace {

struct RmsNormOptions {
  config::Name over;
  double epsilon = 1e-6;
};

void describe(config::Visitor& visit, RmsNormOptions& options) {
  visit("over", options.over,
        "the dimension that is normalised (default: the one that the layer before made)");
  visit("epsilon", options.epsilon, "added to the mean square", config::non_negative);
}

class RmsNormLayer final : public Layer {
 public:
  using Options = RmsNormOptions;
  explicit RmsNormLayer(const Options& options) : options_(options) {}
  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    return rms_norm(context, x, normalized_dimension(context, x, options_.over), options_.epsilon);
  }

 private:
  Options options_;
};

const LayerRegistration<RmsNormLayer> rms_norm_registration("rms_norm",
                                                            "y = x / sqrt(mean(x^2) + epsilon) * scale",
                                                            {"root_mean_square_norm", "t5_layer_norm"});

}  // namespace
}  // namespace mtf
