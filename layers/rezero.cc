#include "engine/ops/binary.h"
#include "layers/registry.h"

namespace mtf {
namespace {

struct RezeroOptions {
  static constexpr std::string_view shorthand = "initial_value";
  double initial_value = 0;
};

void describe(config::Visitor& visit, RezeroOptions& options) {
  visit("initial_value", options.initial_value, "of the weight");
}

class RezeroLayer final : public Layer {
 public:
  using Options = RezeroOptions;
  explicit RezeroLayer(const Options& options) : options_(options) {}
  bool is_transparent(bool has_own_name) const override { return !has_own_name; }
  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    return multiply(x, context.variable("rezero_weight", {}, Initializer::constant(options_.initial_value)));
  }

 private:
  Options options_;
};

const LayerRegistration<RezeroLayer> rezero_registration(
    "rezero",
    "y = x * rezero_weight, one learned number that begins at 0. "
    "Bachlechner et al., ReZero is All You Need, 2020, eq. 1");

}  // namespace
}  // namespace mtf
