#include <fmt/format.h>

#include "engine/ops/binary.h"
#include "layers/registry.h"

namespace mtf {
namespace {

struct AddOptions {
  static constexpr std::string_view shorthand = "with";
  config::Name with;
};

void describe(config::Visitor& visit, AddOptions& options) {
  visit("with", options.with, "name of a saved tensor", config::required);
}

class AddLayer final : public Layer {
 public:
  using Options = AddOptions;
  explicit AddLayer(const Options& options) : with_(options.with) {}
  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    const Tensor saved = context.saved(with_);
    if (!x.shape().contains_all(saved.shape())) {
      throw Error(ErrorKind::kConfig, with_.mark,
                  fmt::format("add: {} and `{}` {} do not fit", x.shape().to_string(), with_.text,
                              saved.shape().to_string()),
                  "the saved tensor may have dimensions of x only");
    }
    return add(x, saved);
  }

 private:
  config::Name with_;
};

const LayerRegistration<AddLayer> add_registration(
    "add", "y = x + saved tensor, repeated along the dimensions of x that it lacks");

}  // namespace
}  // namespace mtf
