// An augmentation that keeps a few levels of each colour.
#include <cmath>

#include "data/augment/augmentation.h"

namespace mtf {
namespace {

struct PosterizeOptions final : AugmentationOptions {
  static constexpr std::string_view type_name = "posterize";
  static constexpr std::string_view shorthand = "levels";  // - posterize: 4
  int64_t levels = 8;
  double probability = 0.5;

  ImageShape result(const ImageShape& shape, const Mark& mark) const override {
    check_colors(shape, type_name, mark);
    return shape;
  }

  void apply(FloatImage& image, Draws& draws) const override {
    if (!draws.chance(probability)) return;
    const auto steps = static_cast<float>(levels - 1);
    for (int64_t i = 0; i < image.shape.size(); ++i)
      image.pixels()[i] = std::round(image.pixels()[i] * steps) / steps;
  }
};

void describe(config::Visitor& visit, PosterizeOptions& options) {
  visit("levels", options.levels, "numbers that a colour may be", config::at_least(2));
  visit("probability", options.probability, "how often", config::probability);
}

const config::Registration<AugmentationOptions, PosterizeOptions> posterize_registration;

}  // namespace
}  // namespace mtf
