#include <fmt/format.h>

#include "engine/ops/normalization.h"
#include "layers/normalization.h"
#include "layers/registry.h"

namespace mtf {

std::string normalized_dimension(const Context& context, const LayerTensor& x, const config::Name& over) {
  if (!over.empty()) return find_dimension(x, over).name;
  const Shape made = context.made(x);
  if (made.rank() != 1) {
    throw Error(ErrorKind::kConfig,
                fmt::format("which dimension of {} is to be normalised?", made.to_string()),
                "name it: `over`");
  }
  return made[0].name;
}

namespace {

/// layer_norm(), whose bias is 0 without `has_bias`.
Tensor normalized_by_layer_norm(Context& context, const Tensor& x, const std::string& dimension,
                                double epsilon, bool has_bias) {
  const Shape shape{find_dimension(x, dimension)};
  const Tensor scale = context.variable("layer_norm_scale", shape, Initializer::ones());
  const Tensor bias = has_bias ? context.variable("layer_norm_bias", shape, Initializer::zeros())
                               : context.graph().constant(0, scale.dtype(), shape);
  return layer_norm(x, dimension, scale, bias, epsilon);
}

}  // namespace

Tensor layer_norm(Context& context, const Tensor& x, const std::string& dimension, double epsilon) {
  return normalized_by_layer_norm(context, x, dimension, epsilon, true);
}

namespace {

struct LayerNormOptions {
  config::Name over;
  double epsilon = 1e-6;
  bool bias = true;
};

void describe(config::Visitor& visit, LayerNormOptions& options) {
  visit("over", options.over,
        "the dimension that is normalised (default: the one that the layer before made)");
  visit("epsilon", options.epsilon, "added to the variance", config::non_negative);
  visit("bias", options.bias, "adds a learned bias; false: as in Cohere's models");
}

class LayerNormLayer final : public Layer {
 public:
  using Options = LayerNormOptions;
  explicit LayerNormLayer(const Options& options) : options_(options) {}
  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    return normalized_by_layer_norm(context, x, normalized_dimension(context, x, options_.over),
                                    options_.epsilon, options_.bias);
  }

 private:
  Options options_;
};

const LayerRegistration<LayerNormLayer> layer_norm_registration(
    "layer_norm", "y = (x - mean) / sqrt(variance + epsilon) * layer_norm_scale + layer_norm_bias",
    {"norm", "ln", "layer_normalization"});

}  // namespace
}  // namespace mtf
