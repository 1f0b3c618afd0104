#include <fmt/format.h>

#include "engine/ops/halo.h"
#include "layers/registry.h"

namespace mtf {
namespace {

struct HaloExchangeOptions {
  config::Name blocks;
  config::Name along;
  int64_t size = 1;
  bool wrap = false;
};

void describe(config::Visitor& visit, HaloExchangeOptions& options) {
  visit("blocks", options.blocks, "the dimension of the blocks, which a layout may split", config::required);
  visit("along", options.along, "the dimension of a block's entries", config::required);
  visit("size", options.size, "entries that each block gets from the blocks on both sides",
        config::non_negative);
  visit("wrap", options.wrap, "the first block has the last one beside it; otherwise there are zeros");
}

class HaloExchangeLayer final : public Layer {
 public:
  using Options = HaloExchangeOptions;
  explicit HaloExchangeLayer(const Options& options) : options_(options) {}

  LayerTensor operator()(Context&, const LayerTensor& x) const override {
    return halo_exchange(x, find_dimension(x, options_.blocks), find_dimension(x, options_.along),
                         options_.size, options_.wrap);
  }

 private:
  Options options_;
};

const LayerRegistration<HaloExchangeLayer> halo_exchange_registration(
    "halo_exchange",
    "y = x with `size` entries more on both sides of each block, from the neighbouring blocks. Convolutions "
    "need it only\n"
    "where the model has dimensions of blocks; along a dimension that a layout splits they exchange by "
    "themselves",
    {"halo", "ghost_cells"});

}  // namespace
}  // namespace mtf
