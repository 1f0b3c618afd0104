#include "engine/ops/concat.h"

#include "layers/registry.h"

namespace mtf {
namespace {

struct ConcatOptions {
  std::string with;
  std::string along;
};

void describe(config::Visitor& visit, ConcatOptions& options) {
  visit("with", options.with, "name of a saved tensor", config::required);
  visit("along", options.along, "the dimension along which both are joined", config::required);
}

class ConcatLayer final : public Layer {
 public:
  using Options = ConcatOptions;
  explicit ConcatLayer(const Options& options) : options_(options) {}
  Tensor operator()(Context& context, const Tensor& x) const override {
    find_dimension(x, options_.along);
    return concat({x, context.saved(options_.with)}, options_.along);
  }

 private:
  Options options_;
};

const LayerRegistration<ConcatLayer> registration("concat", "y = concat(x, saved tensor) along a dimension");

}  // namespace
}  // namespace mtf
