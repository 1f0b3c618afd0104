// Spans of a text are taken out, and the model writes them: the objective of T5.
#include "data/text/objectives/denoising.h"

namespace mtf {
namespace {

struct SpanCorruptionOptions final : ObjectiveOptions {
  static constexpr std::string_view type_name = "span_corruption";
  static constexpr bool type_required = true;
  static constexpr std::array common_names = {CommonName{"t5", "`span_corruption`"},
                                              CommonName{"denoising", "`span_corruption` or `ul2`"}};
  SpanNoise noise;
  std::string mode;
  DenoisingRows rows;

  Denoiser denoiser() const { return {.noise = noise, .mode = mode}; }
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

void describe(config::Visitor& visit, SpanCorruptionOptions& options) {
  describe_noise(visit, options.noise);
  describe_mode(visit, options.mode);
  describe_rows(visit, options.rows);
}

const config::Registration<ObjectiveOptions, SpanCorruptionOptions> span_corruption;

}  // namespace
}  // namespace mtf
