#include "engine/ops/reshape.h"

#include <fmt/format.h>

#include "layers/registry.h"

namespace mtf {
namespace {

struct ReshapeOptions {
  Shape output;
  std::vector<config::Name> over;
};

void describe(config::Visitor& visit, ReshapeOptions& options) {
  visit("output", options.output, "names and sizes of the new dimensions", config::required);
  visit("over", options.over,
        "neighbouring dimensions that they replace (default: those that the layer before made; at first all "
        "but the batch)");
}

class ReshapeLayer final : public Layer {
 public:
  using Options = ReshapeOptions;
  explicit ReshapeLayer(const Options& options) : options_(options) {}

  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    const Shape from = options_.over.empty() ? context.made(x) : find_dimensions(x, options_.over);
    if (from.size() != options_.output.size()) {
      throw Error(ErrorKind::kConfig,
                  fmt::format("reshape: {} has {} entries and {} has {}", from.to_string(), from.size(),
                              options_.output.to_string(), options_.output.size()),
                  "both need the same number of entries");
    }
    const Tensor y = replace_dimensions(x, from, options_.output);
    return {y, options_.output};
  }

 private:
  Options options_;
};

const LayerRegistration<ReshapeLayer> reshape_registration(
    "reshape", "y = x with the dimensions `over` replaced by `output`; same elements in the same order",
    {"flatten", "view"});

}  // namespace
}  // namespace mtf
