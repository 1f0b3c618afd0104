// Lion: weight -= rate * sign(beta1 * m + (1 - beta1) * g); m = beta2 * m + (1 - beta2) * g. Chen et al.
// 2023, algorithm 2.
#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/unary.h"
#include "trainer/optimizer/optimizer.h"

namespace mtf {
namespace {

struct Lion final : OptimizerOptions {
  static constexpr std::string_view type_name = "lion";
  double beta1 = 0.9;
  double beta2 = 0.99;

  Tensor update(UpdateContext& context, const WeightUpdate& w) const override {
    const Variable& m = context.slot(w.variable.name + "/lion_m", w.variable.shape);
    const Tensor before = context.read(m), gradient = cast(w.gradient, DType::kFloat32);
    const auto mixed = [&](double beta) {
      return add(scalar_multiply(before, beta), scalar_multiply(gradient, 1 - beta));
    };
    const Tensor step = multiply(sign(mixed(beta1)), context.learning_rate());
    context.assign(m, mixed(beta2));
    return context.decayed(subtract(w.weight, cast(step, w.weight.dtype())), w);
  }
};

void describe(config::Visitor& visit, Lion& options) {
  visit("beta1", options.beta1, "part of the momentum in the direction of a step", kDecayRate);
  visit("beta2", options.beta2, "decay of the mean of gradients", kDecayRate);
  describe_common(visit, options);
}

const config::Registration<OptimizerOptions, Lion> lion;

}  // namespace
}  // namespace mtf
