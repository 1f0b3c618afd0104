#include <fmt/format.h>

#include "engine/ops/binary.h"
#include "engine/ops/pool.h"
#include "engine/ops/unary.h"
#include "layers/registry.h"
#include "layers/space/space.h"

namespace mtf {
namespace {

struct LocalResponseNormOptions {
  int64_t size = 5;
  double alpha = 1e-4;
  double beta = 0.75;
  double bias = 2;
  std::vector<config::Name> over;
};

void describe(config::Visitor& visit, LocalResponseNormOptions& options) {
  visit("size", options.size, "neighbouring channels whose squares are summed, half on each side",
        config::positive);
  visit("alpha", options.alpha, "factor of the sum", config::non_negative);
  visit("beta", options.beta, "exponent", config::non_negative);
  visit("bias", options.bias, "added to the sum", config::positive);
  visit("over", options.over,
        "the channels (default: the dimension that the layer before made; at first `channels`)");
}

/// Krizhevsky et al., ImageNet classification with deep convolutional neural networks, 2012, section 3.3.
class LocalResponseNormLayer final : public Layer {
 public:
  using Options = LocalResponseNormOptions;
  explicit LocalResponseNormLayer(const Options& options) : options_(options) {}

  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    const Shape channels = channels_of(context, x, options_.over);
    if (channels.rank() != 1) {
      throw Error(
          ErrorKind::kConfig,
          fmt::format("local_response_norm: which dimension of {} are channels?", x.shape().to_string()),
          "name it: `over`");
    }
    const int64_t half = options_.size / 2;
    const Window window = window_over(
        channels[0], {.size = options_.size, .padding = Padding::of(half, options_.size - 1 - half)});
    const Tensor sum = window_sum(square(x), {window}, options_.alpha);
    return multiply(x, pow(scalar_add(sum, options_.bias), -options_.beta));
  }

 private:
  Options options_;
};

const LayerRegistration<LocalResponseNormLayer> local_response_norm(
    "local_response_norm", "y = x * (bias + alpha * sum of x^2 over `size` neighbouring channels)^-beta",
    {"lrn", "local_response_normalization"});

}  // namespace
}  // namespace mtf
