#include "engine/ops/reshape.h"
#include "layers/registry.h"

namespace mtf {
namespace {

struct RenameOptions {
  std::string from;
  std::string to;
};

void describe(config::Visitor& visit, RenameOptions& options) {
  visit("from", options.from, "a dimension of x", config::required);
  visit("to", options.to, "its new name, which decides the layout rule that it follows", config::required);
}

class RenameLayer final : public Layer {
 public:
  using Options = RenameOptions;
  explicit RenameLayer(const Options& options) : options_(options) {}

  Tensor operator()(Context& context, const Tensor& x) const override {
    find_dimension(x, options_.from);
    const Tensor y = rename(x, options_.from, options_.to);
    const Shape made = context.made(x);
    context.set_made(y, made.contains(options_.from) ? made.renamed(options_.from, options_.to) : made);
    return y;
  }

 private:
  Options options_;
};

const LayerRegistration<RenameLayer> registration("rename", "y = x with dimension `from` called `to`");

}  // namespace
}  // namespace mtf
