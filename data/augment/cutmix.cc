// The augmentation `cutmix`: a rectangle of another image (Yun et al. 2019: CutMix: regularization strategy to train strong
// classifiers).
#include <algorithm>
#include <array>
#include <cmath>

#include "data/augment/augmentation.h"

namespace mtf {
namespace {

struct CutmixOptions final : MixingOptions {
  static constexpr std::string_view type_name = "cutmix";
  static constexpr std::string_view shorthand = "alpha";
  static constexpr std::array common_names = {CommonName{"cut_mix", "`cutmix`"}};
  double alpha = 1;

  /// The rectangle has the shape of the image and a middle anywhere in it. What is left of it within the image decides
  /// the weights.
  float mix(FloatImage& image, const FloatImage& other, Draws& draws) const override {
    const int64_t rows = image.shape.rows, cols = image.shape.cols, depth = image.shape.channels;
    const double side = std::sqrt(1 - draws.beta(alpha));
    const auto height = static_cast<int64_t>(side * static_cast<double>(rows));
    const auto width = static_cast<int64_t>(side * static_cast<double>(cols));
    const int64_t row = draws.below(rows) - height / 2, col = draws.below(cols) - width / 2;
    const int64_t top = std::max<int64_t>(row, 0), bottom = std::min(row + height, rows);
    const int64_t left = std::max<int64_t>(col, 0), right = std::min(col + width, cols);
    for (int64_t r = top; r < bottom; ++r)
      std::copy_n(other.pixels() + (r * cols + left) * depth, (right - left) * depth,
                  image.row(r) + left * depth);
    const auto taken = static_cast<double>((bottom - top) * (right - left));
    return static_cast<float>(1 - taken / static_cast<double>(rows * cols));
  }
};

void describe(config::Visitor& visit, CutmixOptions& options) {
  visit(
      "alpha", options.alpha,
      "the rectangle is 1 - b of the area, where b is of the distribution Beta(alpha, alpha), less what lies "
      "beyond the border; labels are weighted by the areas that remain",
      config::positive);
  describe_common(visit, options);
}

const config::Registration<AugmentationOptions, CutmixOptions> cutmix_registration;

}  // namespace
}  // namespace mtf
