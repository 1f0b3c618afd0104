// Gradient descent with classical momentum: v = learning rate * gradient + momentum * v; w -= v.
#include "engine/ops/optimizer_updates.h"
#include "trainer/optimizer/optimizer.h"

namespace mtf {
namespace {

struct Momentum final : OptimizerOptions {
  static constexpr std::string_view type_name = "momentum";
  static constexpr std::array common_names = {CommonName{"sgd_momentum", "`momentum`"},
                                              CommonName{"nesterov", "`momentum`"}};
  double momentum = 0.9;

  Tensor update(UpdateContext& context, const WeightUpdate& w) const override {
    const Variable& v = context.slot(w.variable.name + "_momentum_v", w.variable.shape);
    const MomentumUpdate u = momentum_update(w.weight, w.gradient, context.stored(v), context.learning_rate(),
                                             momentum, context.first_element());
    context.assign(v, u.velocity);
    return context.decayed(u.weight, w);
  }
};

void describe(config::Visitor& visit, Momentum& options) {
  visit("momentum", options.momentum, "v = learning_rate * gradient + momentum * v; weight -= v", kDecayRate);
  describe_common(visit, options);
}

const config::Registration<OptimizerOptions, Momentum> momentum;

}  // namespace
}  // namespace mtf
