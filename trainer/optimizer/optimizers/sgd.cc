// Stochastic gradient descent: w -= learning rate * gradient.
#include "engine/ops/optimizer_updates.h"
#include "trainer/optimizer/optimizer.h"

namespace mtf {
namespace {

struct Sgd final : OptimizerOptions {
  static constexpr std::string_view type_name = "sgd";
  static constexpr std::array common_names = {CommonName{"gradient_descent", "`sgd`"}};

  Tensor update(UpdateContext& context, const WeightUpdate& w) const override {
    return context.decayed(sgd_update(w.weight, w.gradient, context.learning_rate()), w);
  }
};

void describe(config::Visitor& visit, Sgd& options) { describe_common(visit, options); }

const config::Registration<OptimizerOptions, Sgd> sgd;

}  // namespace
}  // namespace mtf
