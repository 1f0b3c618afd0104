#include "engine/ops/slice.h"

#include <fmt/format.h>

#include "layers/registry.h"

namespace mtf {
namespace {

struct SliceOptions {
  config::Name along;
  int64_t begin = 0;
  std::optional<int64_t> end;
};

void describe(config::Visitor& visit, SliceOptions& options) {
  visit("along", options.along, "the dimension of which some entries are taken", config::required);
  visit("begin", options.begin, "the first of them, from 0", config::non_negative);
  visit("end", options.end, "the first one behind them (default: none, up to the last one)",
        config::positive);
}

class SliceLayer final : public Layer {
 public:
  using Options = SliceOptions;
  explicit SliceLayer(const Options& options) : options_(options) {}

  LayerTensor operator()(Context&, const LayerTensor& x) const override {
    const Dimension along = find_dimension(x, options_.along);
    const int64_t end = options_.end.value_or(along.size);
    if (options_.begin >= end || end > along.size) {
      throw Error(ErrorKind::kConfig, options_.along.mark,
                  fmt::format("slice: `{}` = {} has no entries from {} to before {}", along.name, along.size,
                              options_.begin, end),
                  fmt::format("`begin` below `end`, and `end` at most {}", along.size));
    }
    return slice(x, along.name, options_.begin, end - options_.begin);
  }

 private:
  Options options_;
};

const LayerRegistration<SliceLayer> slice_registration(
    "slice", "y = the entries `begin` to before `end` of x along a dimension, which keeps its name",
    {"narrow", "crop"});

}  // namespace
}  // namespace mtf
