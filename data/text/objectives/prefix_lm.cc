// The model reads the beginning of a text and writes the rest.
#include "data/text/objectives/denoising.h"

namespace mtf {
namespace {

struct PrefixLmOptions final : ObjectiveOptions {
  static constexpr std::string_view type_name = "prefix_lm";
  static constexpr bool type_required = true;
  std::string mode;
  DenoisingRows rows;

  Denoiser denoiser() const { return {.prefix = true, .mode = mode}; }
  BySide<int64_t> row(const BySide<int64_t>& given) const override {
    return denoising_row(given, rows, denoiser());
  }
  std::vector<Feature> features(const BySide<int64_t>& row, int64_t size) const override {
    return denoising_features(row, size);
  }
  std::vector<WeightedObjective> make(const BySide<int64_t>& row,
                                      std::shared_ptr<const Vocabulary> vocabulary) const override {
    std::vector<WeightedObjective> one;
    one.push_back({make_denoising(denoiser(), rows, row, *vocabulary)});
    return one;
  }
};

void describe(config::Visitor& visit, PrefixLmOptions& options) {
  describe_mode(visit, options.mode);
  describe_rows(visit, options.rows);
}

const config::Registration<ObjectiveOptions, PrefixLmOptions> prefix_lm;

}  // namespace
}  // namespace mtf
