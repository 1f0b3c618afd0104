#include <fmt/format.h>

#include "engine/ops/binary.h"
#include "layers/dropout.h"
#include "layers/registry.h"

namespace mtf {
namespace {

struct ResidualOptions {
  config::Node layers;
  config::Node shortcut;
  double drop = 0;
};

void describe(config::Visitor& visit, ResidualOptions& options) {
  visit("layers", options.layers,
        "list of layers whose result has the dimensions of x; none, in `sublayers`: x is added to the input "
        "of the layer in hand");
  visit("shortcut", options.shortcut,
        "list of layers that x goes through on the other way, such as one that changes its size");
  visit("drop", options.drop,
        "probability of leaving `layers` out for an example (stochastic depth); the results of the others "
        "are scaled",
        config::probability, config::reported_on_resume);
  visit.check([&options](const config::Report& report) {
    if (options.drop >= 1) report.error("drop", "a rate of 1 leaves nothing", "a rate below 1");
  });
}

class ResidualLayer final : public Layer {
 public:
  using Options = ResidualOptions;
  ResidualLayer(const Options& options, LayerParser& parser)
      : layers_(list(options.layers, parser)),
        shortcut_(list(options.shortcut, parser)),
        drop_(options.drop) {}

  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    if (layers_.empty()) return sum(layer_input(context), kept_of(context, x));
    const LayerTensor y = layers_(context, x);
    const Tensor kept = kept_of(context, y);
    if (shortcut_.empty()) return LayerTensor(sum(x, kept)).made_from(y);
    const auto scope = context.graph().scope("shortcut");
    return LayerTensor(sum(shortcut_(context, x), kept)).made_from(y);
  }

 private:
  static LayerList list(const config::Node& node, LayerParser& parser) {
    return node.is_null() ? LayerList() : parser.parse(node);
  }

  /// y, or zeros for the examples whose layers are left out.
  Tensor kept_of(Context& context, const Tensor& y) const {
    return drop_ > 0 ? dropout(context, y, drop_, y.shape() - Shape{context.batch_of(y)}) : y;
  }

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

  LayerList layers_, shortcut_;
  double drop_;
};

const LayerRegistration<ResidualLayer> residual_registration(
    "residual",
    "y = shortcut(x) + layers(x), where there is no shortcut x + layers(x); in `sublayers.per_layer` without "
    "layers: y = x + the input of the layer in hand",
    {"skip", "skip_connection", "shortcut"});

}  // namespace
}  // namespace mtf
