#include <fmt/format.h>

#include "layers/copies.h"
#include "layers/registry.h"

namespace mtf {
namespace {

struct RepeatOptions {
  int64_t times = 1;
  config::Node layers;
};

void describe(config::Visitor& visit, RepeatOptions& options) {
  visit("times", options.times, "how often; 0: the layers are left out", config::non_negative,
        config::at_most(kMostCopies), config::required);
  visit("layers", options.layers, "list of layers", config::required);
}

class RepeatLayer final : public Layer {
 public:
  using Options = RepeatOptions;
  RepeatLayer(const Options& options, LayerParser& parser)
      : times_(options.times),
        layers_(options.layers.is_null() ? LayerList() : parser.parse(options.layers)) {}
  bool is_group() const override { return true; }

  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    const CopyLimit limit(context.graph());
    LayerTensor y = x;
    for (int64_t i = 0; i < times_; ++i) {
      const auto unit = context.graph().unit(fmt::format("{:03}", i), true);
      const auto scope = context.graph().scope(fmt::format("{:03}", i));
      y = layers_(context, y);
      if (i == 0) limit.check("times", times_);
    }
    return y;
  }

 private:
  int64_t times_;
  LayerList layers_;
};

const LayerRegistration<RepeatLayer> repeat_registration(
    "repeat", "y = layers(... layers(x)), with weights of their own: scopes NAME/000, NAME/001, ...");

}  // namespace
}  // namespace mtf
