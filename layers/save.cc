#include "layers/registry.h"

namespace mtf {
namespace {

struct SaveOptions {
  static constexpr std::string_view shorthand = "as";
  std::string as;
};

void describe(config::Visitor& visit, SaveOptions& options) {
  visit("as", options.as, "name under which later layers (concat, add) find the tensor", config::required);
}

class SaveLayer final : public Layer {
 public:
  using Options = SaveOptions;
  explicit SaveLayer(const Options& options) : as_(options.as) {}
  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    context.save(as_, x);
    return x;
  }

 private:
  std::string as_;
};

const LayerRegistration<SaveLayer> save_registration("save", "y = x, which is kept by name");

}  // namespace
}  // namespace mtf
