#include <fmt/format.h>

#include "engine/ops/reshape.h"
#include "layers/registry.h"

namespace mtf {
namespace {

struct RenameOptions {
  config::Name from;
  config::Name to;
};

void describe(config::Visitor& visit, RenameOptions& options) {
  visit("from", options.from, "a dimension of x", config::required);
  visit("to", options.to, "its new name, which decides the layout rule that it follows", config::required);
}

class RenameLayer final : public Layer {
 public:
  using Options = RenameOptions;
  explicit RenameLayer(const Options& options) : options_(options) {}

  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    const std::string from = find_dimension(x, options_.from).name, to = options_.to.text;
    if (to != from && x.shape().contains(to)) {
      throw Error(ErrorKind::kConfig, options_.to.mark,
                  fmt::format("rename: {} has a dimension `{}` already", x.shape().to_string(), to),
                  "another name");
    }
    const Tensor y = rename(x, from, to);
    context.note_rename(from, to);
    if (!x.made()) return y;
    return {y, x.made()->contains(from) ? x.made()->renamed(from, to) : *x.made()};
  }

 private:
  Options options_;
};

const LayerRegistration<RenameLayer> rename_registration("rename", "y = x with dimension `from` called `to`");

}  // namespace
}  // namespace mtf
