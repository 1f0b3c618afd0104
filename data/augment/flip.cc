// The augmentation `flip`: mirrors images.
#include <algorithm>
#include <array>

#include "data/augment/augmentation.h"

namespace mtf {
namespace {

enum class FlipAlong { kCols, kRows };

config::EnumNames enum_names(FlipAlong) { return {{"cols", FlipAlong::kCols}, {"rows", FlipAlong::kRows}}; }
config::CommonNames common_names(FlipAlong) {
  static constexpr std::array names = {CommonName{"horizontal", "`cols`"}, CommonName{"vertical", "`rows`"}};
  return names;
}

struct FlipOptions final : AugmentationOptions {
  static constexpr std::string_view type_name = "flip";
  static constexpr std::string_view shorthand = "along";
  static constexpr std::array common_names = {
      CommonName{"horizontal_flip", "`flip`"}, CommonName{"random_flip", "`flip`"},
      CommonName{"mirror", "`flip`"}, CommonName{"vertical_flip", "`flip: rows`"}};
  FlipAlong along = FlipAlong::kCols;
  double probability = 0.5;

  void apply(FloatImage& image, Draws& draws) const override {
    if (!draws.chance(probability)) return;
    const int64_t rows = image.shape.rows, cols = image.shape.cols, depth = image.shape.channels;
    if (along == FlipAlong::kRows) {
      for (int64_t r = 0; r < rows / 2; ++r)
        std::swap_ranges(image.row(r), image.row(r) + cols * depth, image.row(rows - 1 - r));
      return;
    }
    for (int64_t r = 0; r < rows; ++r) {
      float *left = image.row(r), *right = left + (cols - 1) * depth;
      for (; left < right; left += depth, right -= depth) std::swap_ranges(left, left + depth, right);
    }
  }
};

void describe(config::Visitor& visit, FlipOptions& options) {
  visit("along", options.along, "cols: left and right change places; rows: top and bottom");
  visit("probability", options.probability, "how often", config::probability);
}

const config::Registration<AugmentationOptions, FlipOptions> flip_registration;

}  // namespace
}  // namespace mtf
