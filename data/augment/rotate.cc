// The augmentation `rotate`: turns images by a random angle.
#include <array>

#include "data/augment/augmentation.h"
#include "data/augment/warp.h"

namespace mtf {
namespace {

struct RotateOptions final : AugmentationOptions {
  static constexpr std::string_view type_name = "rotate";
  static constexpr std::string_view shorthand = "degrees";
  static constexpr std::array common_names = {CommonName{"random_rotation", "`rotate`"},
                                              CommonName{"rotation", "`rotate`"}};
  double degrees = 0;

  void apply(FloatImage& image, Draws& draws) const override {
    warp(image, about_center(image.shape, rotation(draws.uniform(-degrees, degrees))));
  }
};

void describe(config::Visitor& visit, RotateOptions& options) {
  visit("degrees", options.degrees, "the largest angle to either side, about the middle; outside is zero",
        config::required, config::Bounds{0.0, 180.0, false});
}

const config::Registration<AugmentationOptions, RotateOptions> rotate_registration;

}  // namespace
}  // namespace mtf
