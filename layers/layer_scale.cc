#include "engine/ops/binary.h"
#include "layers/registry.h"

namespace mtf {
namespace {

struct LayerScaleOptions {
  static constexpr std::string_view shorthand = "initial_value";
  double initial_value = 1e-6;
  std::vector<config::Name> over;
};

void describe(config::Visitor& visit, LayerScaleOptions& options) {
  visit("initial_value", options.initial_value, "of all weights");
  visit("over", options.over,
        "dimensions whose entries have a weight each (default: those that the layer before made)");
}

class LayerScaleLayer final : public Layer {
 public:
  using Options = LayerScaleOptions;
  explicit LayerScaleLayer(const Options& options) : options_(options) {}
  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    const Shape over = options_.over.empty() ? context.made(x) : find_dimensions(x, options_.over);
    return multiply(x, context.variable("layer_scale", over, Initializer::constant(options_.initial_value)),
                    x.shape());
  }

 private:
  Options options_;
};

const LayerRegistration<LayerScaleLayer> layer_scale_registration(
    "layer_scale",
    "y = x * layer_scale, one learned number for each channel, before the sum of a residual. "
    "Touvron et al., Going deeper with Image Transformers, 2021, eq. 2",
    {"layerscale", "LayerScale"});

}  // namespace
}  // namespace mtf
