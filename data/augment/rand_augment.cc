// The augmentation `rand_augment`: a few operations that are drawn for each image, all with one magnitude (Cubuk et al.
// 2020: RandAugment: practical automated data augmentation with a reduced search space).
#include <array>
#include <cmath>

#include "data/augment/augmentation.h"
#include "data/augment/colors.h"
#include "data/augment/warp.h"

namespace mtf {
namespace {

constexpr double kMostMagnitude = 10;

/// A number of the magnitude 0 to 1, to either side.
float to_either_side(double number, Draws& draws) {
  return static_cast<float>(draws.chance(0.5) ? number : -number);
}

/// The factor of brightness, contrast, saturation and sharpness: from 1 to 0.1 or to 1.9.
float enhancement(double strength, Draws& draws) { return 1 + to_either_side(0.9 * strength, draws); }

void mirror(FloatImage& image) {
  Eigen::Matrix2f matrix = Eigen::Matrix2f::Identity();
  matrix(0, 0) = -1;
  warp(image, about_center(image.shape, matrix));
}

/// The largest shear is 0.3.
void shear(FloatImage& image, int along, double strength, Draws& draws) {
  Eigen::Matrix2f matrix = Eigen::Matrix2f::Identity();
  matrix(along, 1 - along) = to_either_side(0.3 * strength, draws);
  warp(image, about_center(image.shape, matrix));
}

/// The largest move is 0.45 of the image.
void translate(FloatImage& image, int along, double strength, Draws& draws) {
  Eigen::Vector2f shift = Eigen::Vector2f::Zero();
  const auto size = static_cast<double>(along == 0 ? image.shape.cols : image.shape.rows);
  shift[along] = to_either_side(0.45 * strength * size, draws);
  warp(image, about_center(image.shape, Eigen::Matrix2f::Identity(), shift));
}

using RandOperation = void (*)(FloatImage& image, double strength, Draws& draws);

constexpr std::array<RandOperation, 14> kRandOperations = {
    [](FloatImage& image, double, Draws&) { mirror(image); },
    [](FloatImage& image, double strength, Draws& draws) {
      warp(image, about_center(image.shape, rotation(to_either_side(30 * strength, draws))));
    },
    [](FloatImage& image, double strength, Draws& draws) { shear(image, 0, strength, draws); },
    [](FloatImage& image, double strength, Draws& draws) { shear(image, 1, strength, draws); },
    [](FloatImage& image, double strength, Draws& draws) { translate(image, 0, strength, draws); },
    [](FloatImage& image, double strength, Draws& draws) { translate(image, 1, strength, draws); },
    [](FloatImage& image, double strength, Draws& draws) {
      change_brightness(image, enhancement(strength, draws));
    },
    [](FloatImage& image, double strength, Draws& draws) {
      change_contrast(image, enhancement(strength, draws));
    },
    [](FloatImage& image, double strength, Draws& draws) {
      change_saturation(image, enhancement(strength, draws));
    },
    [](FloatImage& image, double strength, Draws& draws) {
      change_sharpness(image, enhancement(strength, draws));
    },
    [](FloatImage& image, double strength, Draws&) {
      posterize(image, 8 - static_cast<int>(std::lround(4 * strength)));
    },
    [](FloatImage& image, double strength, Draws&) {
      if (strength > 0) solarize(image, static_cast<float>(1 - strength));
    },
    [](FloatImage& image, double, Draws&) { stretch_contrast(image); },
    [](FloatImage& image, double, Draws&) { equalize(image); },
};

struct RandAugmentOptions final : AugmentationOptions {
  static constexpr std::string_view type_name = "rand_augment";
  static constexpr std::array common_names = {
      CommonName{"randaugment", "`rand_augment`"}, CommonName{"auto_augment", "`rand_augment`"},
      CommonName{"autoaugment", "`rand_augment`"},
      CommonName{"trivial_augment", "`rand_augment: {operations: 1}`"}};
  int64_t operations = 2;
  double magnitude = 9;

  ImageShape result(const ImageShape& shape, const Mark& mark) const override {
    check_colors(shape, type_name, mark);
    return shape;
  }

  void apply(FloatImage& image, Draws& draws) const override {
    for (int64_t i = 0; i < operations; ++i) {
      const auto which = static_cast<size_t>(draws.below(std::ssize(kRandOperations)));
      kRandOperations[which](image, magnitude / kMostMagnitude, draws);
    }
  }
};

void describe(config::Visitor& visit, RandAugmentOptions& options) {
  visit("operations", options.operations,
        "how many are drawn out of flip (along cols), rotate (30 degrees), shear (0.3) and translate (0.45 "
        "of the "
        "image) along rows or cols, brightness, contrast, saturation, sharpness (factors 0.1 to 1.9), "
        "posterize "
        "(4 bits), solarize, auto-contrast, equalize",
        config::Bounds{0.0, 100.0, true});
  visit("magnitude", options.magnitude, "10: as much as stands above in brackets",
        config::Bounds{0.0, kMostMagnitude, false});
}

const config::Registration<AugmentationOptions, RandAugmentOptions> rand_augment_registration;

}  // namespace
}  // namespace mtf
