#include "engine/ops/concat.h"

#include <fmt/format.h>

#include "layers/registry.h"

namespace mtf {
namespace {

struct ConcatOptions {
  config::Name with;
  config::Name along;
};

void describe(config::Visitor& visit, ConcatOptions& options) {
  visit("with", options.with, "name of a saved tensor", config::required);
  visit("along", options.along, "the dimension along which both are joined", config::required);
}

class ConcatLayer final : public Layer {
 public:
  using Options = ConcatOptions;
  explicit ConcatLayer(const Options& options) : options_(options) {}
  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    const Dimension along = find_dimension(x, options_.along);
    const Tensor saved = context.saved(options_.with);
    if (!can_be_joined(x, saved, along.name)) {
      throw Error(
          ErrorKind::kConfig, options_.with.mark,
          fmt::format("concat: {} and `{}` {} differ in more than the size of `{}`", x.shape().to_string(),
                      options_.with.text, saved.shape().to_string(), along.name),
          "all other dimensions must be the same in both");
    }
    return concat({x, saved}, along.name);
  }

 private:
  Options options_;
};

const LayerRegistration<ConcatLayer> concat_registration("concat",
                                                         "y = concat(x, saved tensor) along a dimension",
                                                         {"concatenate", "cat"});

}  // namespace
}  // namespace mtf
