#include "engine/ops/reduce.h"
#include "layers/registry.h"

namespace mtf {
namespace {

struct MeanOptions {
  static constexpr std::string_view shorthand = "over";
  std::vector<config::Name> over;
};

void describe(config::Visitor& visit, MeanOptions& options) {
  visit("over", options.over, "dimensions that are averaged away", config::required);
}

class MeanLayer final : public Layer {
 public:
  using Options = MeanOptions;
  explicit MeanLayer(const Options& options) : over_(options.over) {}
  LayerTensor operator()(Context&, const LayerTensor& x) const override {
    return reduce_mean(x, x.shape() - find_dimensions(x, over_));
  }

 private:
  std::vector<config::Name> over_;
};

const LayerRegistration<MeanLayer> mean_registration("mean", "y = mean of x over some dimensions",
                                                     {"average"});

}  // namespace
}  // namespace mtf
