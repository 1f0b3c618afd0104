#include "engine/ops/cast.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "layers/registry.h"

namespace mtf {
namespace {

struct ActivityRegularizationOptions {
  double l1 = 0;
  double l2 = 0;
};

void describe(config::Visitor& visit, ActivityRegularizationOptions& options) {
  visit("l1", options.l1, "factor of the mean of |x|", config::non_negative);
  visit("l2", options.l2, "factor of the mean of x^2", config::non_negative);
}

class ActivityRegularizationLayer final : public Layer {
 public:
  using Options = ActivityRegularizationOptions;
  explicit ActivityRegularizationLayer(const Options& options) : options_(options) {}

  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    const Tensor wide = cast(x, DType::kFloat32);
    if (options_.l1 > 0) add(context, abs(wide), options_.l1);
    if (options_.l2 > 0) add(context, square(wide), options_.l2);
    return x;
  }

 private:
  static void add(Context& context, const Tensor& penalty, double factor) {
    context.add_loss("activity", scalar_multiply(reduce_mean(penalty, Shape{}), factor));
  }

  Options options_;
};

const LayerRegistration<ActivityRegularizationLayer> activity_regularization_registration(
    "activity_regularization",
    "y = x, and in training the loss `activity`: l1 mean(|x|) + l2 mean(x^2)\n"
    "(`train.loss_weights: {activity: ...}` is a further factor)",
    {"activity_regularizer"});

}  // namespace
}  // namespace mtf
