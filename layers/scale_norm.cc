#include "engine/ops/binary.h"
#include "engine/ops/normalization.h"
#include "layers/normalization.h"
#include "layers/registry.h"

namespace mtf {
namespace {

struct ScaleNormOptions {
  config::Name over;
  double epsilon = 1e-6;
};

void describe(config::Visitor& visit, ScaleNormOptions& options) {
  visit("over", options.over,
        "the dimension that is normalised (default: the one that the layer before made)");
  visit("epsilon", options.epsilon, "added to the mean square", config::non_negative);
}

class ScaleNormLayer final : public Layer {
 public:
  using Options = ScaleNormOptions;
  explicit ScaleNormLayer(const Options& options) : options_(options) {}
  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    const std::string dimension = normalized_dimension(context, x, options_.over);
    const Tensor scale = context.variable("scale", {}, Initializer::ones());
    const Shape whole{x.shape().dimension(dimension)};
    const Tensor ones = context.graph().constant(1, scale.dtype(), whole);
    return rms_norm(x, dimension, multiply(scale, ones, whole), options_.epsilon);
  }

 private:
  Options options_;
};

const LayerRegistration<ScaleNormLayer> scale_norm_registration(
    "scale_norm",
    "y = x / sqrt(mean(x^2) + epsilon) * scale, one scale for all. Nguyen and Salazar, 2019, eq. 5");

}  // namespace
}  // namespace mtf
