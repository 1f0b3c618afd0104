#include "layers/dropout.h"

#include "engine/ops/random.h"
#include "layers/registry.h"

namespace mtf {

Tensor dropout(Context& context, const Tensor& x, double rate, const Shape& share) {
  return context.training() ? dropout(x, rate, x.shape() - share) : x;
}

namespace {

struct DropoutOptions {
  static constexpr std::string_view shorthand = "rate";
  double rate = 0;
  std::vector<config::Name> share;
};

void describe(config::Visitor& visit, DropoutOptions& options) {
  visit("rate", options.rate, "probability of being zeroed", config::probability, config::reported_on_resume,
        config::required);
  visit("share", options.share, "dimensions along which all entries live and die together");
  visit.check([&options](const config::Report& report) {
    if (options.rate >= 1) report.error("rate", "a dropout rate of 1 leaves nothing", "a rate below 1");
  });
}

class DropoutLayer final : public Layer {
 public:
  using Options = DropoutOptions;
  explicit DropoutLayer(const Options& options) : options_(options) {}
  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    if (!context.training()) return x;  // a step of decoding has no `length` to share
    return dropout(context, x, options_.rate, find_dimensions(x, options_.share));
  }

 private:
  Options options_;
};

const LayerRegistration<DropoutLayer> dropout_registration(
    "dropout", "y = x * mask / (1 - rate), mask = 0 with probability rate, else 1; y = x in evaluation");

}  // namespace
}  // namespace mtf
