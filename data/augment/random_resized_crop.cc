// The augmentation `random_resized_crop`: a part of random area and shape at a random place, scaled to one size (Szegedy et
// al. 2015: Going deeper with convolutions).
#include <algorithm>
#include <array>
#include <cmath>

#include "data/augment/augmentation.h"
#include "data/augment/resample.h"
#include "engine/base/reproducible_math.h"

namespace mtf {
namespace {

struct RandomResizedCropOptions final : AugmentationOptions {
  static constexpr std::string_view type_name = "random_resized_crop";
  static constexpr std::string_view shorthand = "size";
  static constexpr std::array common_names = {CommonName{"inception_crop", "`random_resized_crop`"}};
  std::vector<int64_t> size;
  std::vector<double> area = {0.08, 1};
  std::vector<double> aspect = {3.0 / 4, 4.0 / 3};

  ImageShape result(const ImageShape& shape, const Mark&) const override {
    ImageShape made = shape;
    made.rows = rows_of(size);
    made.cols = cols_of(size);
    return made;
  }

  void apply(FloatImage& image, Draws& draws) const override {
    resample(image, part_of(image.shape, draws), rows_of(size), cols_of(size));
  }

 private:
  /// After ten shapes that do not fit: the largest part in the middle whose shape is allowed.
  ImagePart part_of(const ImageShape& shape, Draws& draws) const {
    constexpr int kTrials = 10;
    const auto height = static_cast<double>(shape.rows), width = static_cast<double>(shape.cols);
    const double low = reproducible::log(aspect[0]), high = reproducible::log(aspect[1]);
    for (int trial = 0; trial < kTrials; ++trial) {
      const double pixels = height * width * draws.uniform(area[0], area[1]);
      const double ratio = reproducible::exp(draws.uniform(low, high));
      const int64_t rows = std::llround(std::sqrt(pixels / ratio)),
                    cols = std::llround(std::sqrt(pixels * ratio));
      if (rows < 1 || cols < 1 || rows > shape.rows || cols > shape.cols) continue;
      const int64_t top = draws.below(shape.rows - rows + 1), left = draws.below(shape.cols - cols + 1);
      return {static_cast<double>(top), static_cast<double>(left), static_cast<double>(rows),
              static_cast<double>(cols)};
    }
    const double ratio = std::clamp(width / height, aspect[0], aspect[1]);
    const double rows = std::min(height, width / ratio), cols = std::min(width, height * ratio);
    return {(height - rows) / 2, (width - cols) / 2, rows, cols};
  }
};

void describe(config::Visitor& visit, RandomResizedCropOptions& options) {
  visit("size", options.size, "[rows, cols] of the result, or one number for both", config::required,
        config::positive);
  visit("area", options.area, "the least and the largest part of the area", config::probability);
  visit("aspect", options.aspect, "the least and the largest ratio of columns to rows", config::positive);
  check_size(visit, options.size);
  check_range(visit, "area", options.area, 0);
  check_range(visit, "aspect", options.aspect, 0);
}

const config::Registration<AugmentationOptions, RandomResizedCropOptions> random_resized_crop_registration;

}  // namespace
}  // namespace mtf
