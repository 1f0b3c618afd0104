// The layer `running_center`: a statistic that moves without a gradient.
#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "layers/registry.h"

namespace mtf {
namespace {

struct RunningCenterOptions {
  double rate = 0.1;
};

void describe(config::Visitor& visit, RunningCenterOptions& options) {
  visit("rate", options.rate, "part of the way to the mean of a batch that `mean` moves in a step",
        config::probability);
}

/// y = x - mean.  x: [batch, features..], mean: [features..]
class RunningCenterLayer final : public Layer {
 public:
  using Options = RunningCenterOptions;
  explicit RunningCenterLayer(const Options& options) : rate_(options.rate) {}

  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    const Shape features = x.shape() - Shape{context.batch()};
    const Tensor mean = context.statistic("mean", features, Initializer::zeros());
    context.update_statistic("mean", reduce_mean(cast(x, DType::kFloat32), features),
                             [rate = rate_](const Tensor& before, const Tensor& value) {
                               return add(scalar_multiply(before, 1 - rate), scalar_multiply(value, rate));
                             });
    return subtract(x, cast(mean, x.dtype()), x.shape());
  }

 private:
  double rate_;
};

const LayerRegistration<RunningCenterLayer> running_center_registration(
    "running_center", "y = x - mean, where `mean` follows the mean of x over the batch");

}  // namespace
}  // namespace mtf
