// The layer `reverse`: an operation, with the options that a configuration gives it.
#include "layers/registry.h"
#include "tests/examples/reverse.h"

namespace mtf {
namespace {

struct ReverseOptions {
  static constexpr std::string_view shorthand = "dimension";  // - reverse: hidden
  config::Name dimension;
};

void describe(config::Visitor& visit, ReverseOptions& options) {
  visit("dimension", options.dimension, "the dimension of x that is turned round", config::required);
}

class ReverseLayer final : public Layer {
 public:
  using Options = ReverseOptions;
  explicit ReverseLayer(const Options& options) : dimension_(options.dimension) {}
  LayerTensor operator()(Context&, const LayerTensor& x) const override {
    return reverse(x, find_dimension(x, dimension_).name);
  }

 private:
  config::Name dimension_;
};

const LayerRegistration<ReverseLayer> reverse_registration("reverse",
                                                           "y[i] = x[size - 1 - i] along `dimension`");

}  // namespace
}  // namespace mtf
