// Lion (Chen et al. 2023, "Symbolic discovery of optimization algorithms", algorithm 2):
//   w -= learning rate * (sign(beta1 m + (1 - beta1) g) + decay * w);  m = beta2 m + (1 - beta2) g
#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/optimizer_updates.h"
#include "engine/ops/unary.h"
#include "trainer/optimizer/optimizers/scaled_steps.h"

namespace mtf {
namespace {

struct Lion final : ScaledSteps {
  static constexpr std::string_view type_name = "lion";
  double beta1 = 0.9;
  double beta2 = 0.99;

  Tensor update(UpdateContext& context, const WeightUpdate& w) const override {
    const Variable& m = context.slot(w.variable.name + "/lion_m", w.variable.shape);
    const Tensor before = context.read(m), gradient = cast(w.gradient, DType::kFloat32);
    const auto mixed = [&](double beta) {
      return add(scalar_multiply(before, beta), scalar_multiply(gradient, 1 - beta));
    };
    context.assign(m, mixed(beta2));
    const double scale = scale_of(w.variable);
    return context.decayed(sgd_update(w.weight, sign(mixed(beta1)), context.learning_rate(scale)), w);
  }
};

void describe(config::Visitor& visit, Lion& options) {
  visit("beta1", options.beta1, "part of the momentum in the direction of a step", kDecayRate);
  visit("beta2", options.beta2, "decay of the mean of gradients", kDecayRate);
  describe_scaled(visit, options);
}

const config::Registration<OptimizerOptions, Lion> lion;

}  // namespace
}  // namespace mtf
