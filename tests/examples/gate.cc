// The layer `gate`: a trained gate for each entry of the dimensions that the layer before made.
#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "layers/registry.h"

namespace mtf {
namespace {

struct GateOptions {
  double start = 0;
  double penalty = 0;
};

void describe(config::Visitor& visit, GateOptions& options) {
  visit("start", options.start, "initial values of gate; large: all gates begin open");
  visit("penalty", options.penalty, "factor of the loss `gate`, the mean of the open gates",
        config::non_negative);
}

/// y = sigmoid(gate) * x.  x: [batch, .., made..], gate: [made..]
class GateLayer final : public Layer {
 public:
  using Options = GateOptions;
  explicit GateLayer(const Options& options) : options_(options) {}

  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    const Shape made = context.made(x);
    const Tensor open = sigmoid(context.variable("gate", made, Initializer::constant(options_.start)));
    const Tensor mean = reduce_mean(cast(open, DType::kFloat32), Shape{});
    if (options_.penalty > 0) context.add_loss("gate", scalar_multiply(mean, options_.penalty));
    context.report("open_gates", stop_gradient(mean));
    return multiply(x, open, x.shape());
  }

 private:
  Options options_;
};

const LayerRegistration<GateLayer> gate_registration(
    "gate", "y = sigmoid(gate) * x, and in training the loss `gate`: penalty * mean(sigmoid(gate))");

}  // namespace
}  // namespace mtf
