// The augmentation `affine`: turns, scales, shears and moves images, all in one step.
#include <array>
#include <numbers>

#include "data/augment/augmentation.h"
#include "data/augment/warp.h"
#include "engine/base/reproducible_math.h"

namespace mtf {
namespace {

struct AffineOptions final : AugmentationOptions {
  static constexpr std::string_view type_name = "affine";
  static constexpr std::array common_names = {
      CommonName{"random_affine", "`affine`"}, CommonName{"translate", "`affine: {translate: 0.1}`"},
      CommonName{"shear", "`affine: {shear: 10}`"}, CommonName{"scale", "`affine: {scale: [0.9, 1.1]}`"}};
  double degrees = 0;
  double translate = 0;
  std::vector<double> scale = {1, 1};
  double shear = 0;

  void apply(FloatImage& image, Draws& draws) const override {
    const Eigen::Matrix2f turned = rotation(draws.uniform(-degrees, degrees));
    const double across = draws.uniform(-translate, translate), down = draws.uniform(-translate, translate);
    const Eigen::Vector2f shift(static_cast<float>(across * static_cast<double>(image.shape.cols)),
                                static_cast<float>(down * static_cast<double>(image.shape.rows)));
    const double low = reproducible::log(scale[0]), high = reproducible::log(scale[1]);
    const auto factor = static_cast<float>(reproducible::exp(draws.uniform(low, high)));
    const double slant = draws.uniform(-shear, shear) * std::numbers::pi / 180;
    Eigen::Matrix2f sheared = Eigen::Matrix2f::Identity();
    sheared(0, 1) = static_cast<float>(reproducible::sin(slant) / reproducible::cos(slant));
    warp(image, about_center(image.shape, turned * sheared * factor, shift));
  }
};

void describe(config::Visitor& visit, AffineOptions& options) {
  visit("degrees", options.degrees, "the largest angle to either side", config::Bounds{0.0, 180.0, false});
  visit("translate", options.translate, "the largest move, as a part of the image's rows and columns",
        config::probability);
  visit("scale", options.scale, "the least and the largest factor of the size", config::positive);
  visit("shear", options.shear, "the largest slant to either side, in degrees",
        config::Bounds{0.0, 80.0, false});
  check_range(visit, "scale", options.scale, 0);
}

const config::Registration<AugmentationOptions, AffineOptions> affine_registration;

}  // namespace
}  // namespace mtf
