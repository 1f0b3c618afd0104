#include <fmt/format.h>

#include "engine/ops/binary.h"
#include "layers/registry.h"

namespace mtf {
namespace {

struct ResidualOptions {
  config::Node layers;
};

void describe(config::Visitor& visit, ResidualOptions& options) {
  visit("layers", options.layers, "list of layers whose result has the dimensions of x", config::required);
}

class ResidualLayer final : public Layer {
 public:
  using Options = ResidualOptions;
  ResidualLayer(const Options& options, LayerParser& parser)
      : layers_(options.layers.is_null() ? LayerList() : parser.parse(options.layers)) {}

  Tensor operator()(Context& context, const Tensor& x) const override {
    const Tensor y = layers_(context, x);
    if (!same_dimensions(x.shape(), y.shape())) {
      throw Error(
          ErrorKind::kConfig,
          fmt::format("residual: the layers make {} of {}", y.shape().to_string(), x.shape().to_string()),
          "their result is added to x and must have its dimensions");
    }
    return add(x, y);
  }

 private:
  LayerList layers_;
};

const LayerRegistration<ResidualLayer> registration("residual", "y = x + layers(x)");

}  // namespace
}  // namespace mtf
