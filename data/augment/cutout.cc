// The augmentation `cutout`: squares of zeros (DeVries, Taylor 2017: Improved regularization of convolutional neural
// networks with cutout).
#include <algorithm>
#include <array>

#include "data/augment/augmentation.h"

namespace mtf {
namespace {

struct CutoutOptions final : AugmentationOptions {
  static constexpr std::string_view type_name = "cutout";
  static constexpr std::string_view shorthand = "size";
  static constexpr std::array common_names = {CommonName{"random_erasing", "`cutout`"}};
  std::vector<int64_t> size;
  int64_t holes = 1;

  void apply(FloatImage& image, Draws& draws) const override {
    const int64_t depth = image.shape.channels;
    for (int64_t hole = 0; hole < holes; ++hole) {
      const int64_t row = draws.below(image.shape.rows) - rows_of(size) / 2;
      const int64_t col = draws.below(image.shape.cols) - cols_of(size) / 2;
      const int64_t left = std::max<int64_t>(col, 0), right = std::min(col + cols_of(size), image.shape.cols);
      for (int64_t r = std::max<int64_t>(row, 0); r < std::min(row + rows_of(size), image.shape.rows); ++r)
        std::fill_n(image.row(r) + left * depth, (right - left) * depth, 0.0f);
    }
  }
};

void describe(config::Visitor& visit, CutoutOptions& options) {
  visit("size", options.size,
        "[rows, cols] of the hole, or one number for both; its middle is anywhere in the image",
        config::required, config::positive);
  visit("holes", options.holes, "how many", config::Bounds{0.0, 1000.0, true});
  check_size(visit, options.size);
}

const config::Registration<AugmentationOptions, CutoutOptions> cutout_registration;

}  // namespace
}  // namespace mtf
