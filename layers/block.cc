#include "layers/registry.h"

namespace mtf {
namespace {

struct BlockOptions {
  std::string use;
  config::Node arguments;
};

void describe(config::Visitor& visit, BlockOptions& options) {
  visit("use", options.use,
        "name of a list of layers in model.blocks; further keys are its arguments: $KEY in the block",
        config::required);
}

class BlockLayer final : public Layer {
 public:
  using Options = BlockOptions;
  BlockLayer(const Options& options, LayerParser& parser)
      : use_(options.use),
        layers_(options.use.empty() ? LayerList() : parser.parse_block(options.use, options.arguments)) {}
  std::string_view default_name() const override { return use_; }
  bool is_group() const override { return true; }
  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    return layers_(context, x);
  }

 private:
  std::string use_;
  LayerList layers_;
};

const LayerRegistration<BlockLayer> block_registration("block",
                                                       "y = the layers of model.blocks.USE, applied to x");

}  // namespace
}  // namespace mtf
