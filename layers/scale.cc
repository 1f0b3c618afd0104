#include "engine/ops/unary.h"
#include "layers/registry.h"

namespace mtf {
namespace {

struct ScaleOptions {
  static constexpr std::string_view shorthand = "factor";
  double factor = 1;
};

void describe(config::Visitor& visit, ScaleOptions& options) {
  visit("factor", options.factor, "a constant", config::required);
}

class ScaleLayer final : public Layer {
 public:
  using Options = ScaleOptions;
  explicit ScaleLayer(const Options& options) : factor_(options.factor) {}
  LayerTensor operator()(Context&, const LayerTensor& x) const override {
    return scalar_multiply(x, factor_);
  }

 private:
  double factor_;
};

const LayerRegistration<ScaleLayer> scale_registration("scale", "y = factor * x");

}  // namespace
}  // namespace mtf
