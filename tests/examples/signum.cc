// Signum: m = beta m + (1 - beta) g; weight -= rate * sign(m). Bernstein et al., signSGD (2018), algorithm 2.
#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/unary.h"
#include "trainer/optimizer/optimizer.h"

namespace mtf {
namespace {

struct Signum final : OptimizerOptions {
  static constexpr std::string_view type_name = "signum";
  double beta = 0.9;

  Tensor update(UpdateContext& context, const WeightUpdate& w) const override {
    const Variable& slot = context.slot(w.variable.name + "/signum_m", w.variable.shape);
    const Tensor gradient = cast(w.gradient, DType::kFloat32);
    const Tensor m = add(scalar_multiply(context.read(slot), beta), scalar_multiply(gradient, 1 - beta));
    context.assign(slot, m);
    const Tensor step = multiply(sign(m), context.learning_rate());
    return context.decayed(subtract(w.weight, cast(step, w.weight.dtype())), w);
  }
};

void describe(config::Visitor& visit, Signum& options) {
  visit("beta", options.beta, "decay of the mean of gradients", kDecayRate);
  describe_common(visit, options);
}

const config::Registration<OptimizerOptions, Signum> signum;

}  // namespace
}  // namespace mtf
