#include <fmt/format.h>

#include "engine/ops/binary.h"
#include "layers/registry.h"

namespace mtf {
namespace {

struct ResidualOptions {
  config::Node layers;
};

void describe(config::Visitor& visit, ResidualOptions& options) {
  visit("layers", options.layers,
        "list of layers whose result has the dimensions of x; none, in `sublayers`: x is added to the input "
        "of the layer in hand");
}

class ResidualLayer final : public Layer {
 public:
  using Options = ResidualOptions;
  ResidualLayer(const Options& options, LayerParser& parser)
      : layers_(options.layers.is_null() ? LayerList() : parser.parse(options.layers)) {}

  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    if (layers_.empty()) return sum(layer_input(context), x);
    return sum(x, layers_(context, x));
  }

 private:
  static Tensor layer_input(const Context& context) {
    const Sequence* sequence = context.find_sequence();
    if (sequence != nullptr && sequence->layer_input) return sequence->layer_input;
    throw Error(ErrorKind::kConfig, "residual has no `layers`",
                "a list of layers; only in `sublayers.per_layer` it adds the input of the layer in hand");
  }

  /// x + y, where y was made of x.
  static Tensor sum(const Tensor& x, const Tensor& y) {
    if (!same_dimensions(x.shape(), y.shape())) {
      throw Error(
          ErrorKind::kConfig,
          fmt::format("residual: the layers make {} of {}", y.shape().to_string(), x.shape().to_string()),
          "their result is added to x and must have its dimensions");
    }
    return add(x, y);
  }

  LayerList layers_;
};

const LayerRegistration<ResidualLayer> residual_registration(
    "residual",
    "y = x + layers(x); in `sublayers.per_layer` without "
    "layers: y = x + the input of the layer in hand",
    {"skip", "skip_connection", "shortcut"});

}  // namespace
}  // namespace mtf
