// The augmentation `color_jitter`: changes brightness, contrast, saturation and hue, in a random order.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "data/augment/augmentation.h"
#include "data/augment/colors.h"

namespace mtf {
namespace {

struct ColorJitterOptions final : AugmentationOptions {
  static constexpr std::string_view type_name = "color_jitter";
  static constexpr std::array common_names = {CommonName{"colour_jitter", "`color_jitter`"},
                                              CommonName{"brightness", "`color_jitter: {brightness: 0.2}`"},
                                              CommonName{"contrast", "`color_jitter: {contrast: 0.2}`"}};
  double brightness = 0;
  double contrast = 0;
  double saturation = 0;
  double hue = 0;

  ImageShape result(const ImageShape& shape, const Mark& mark) const override {
    check_colors(shape, type_name, mark);
    if (shape.channels != 3 && (saturation > 0 || hue > 0))
      throw Error(
          ErrorKind::kConfig, mark,
          fmt::format("`color_jitter` changes `{}`, and images of {} channel{} have none",
                      saturation > 0 ? "saturation" : "hue", shape.channels, shape.channels == 1 ? "" : "s"),
          "`brightness` and `contrast` alone, or images of 3 channels");
    return shape;
  }

  void apply(FloatImage& image, Draws& draws) const override {
    std::array<int, 4> order = {0, 1, 2, 3};
    for (int64_t i = 3; i > 0; --i)
      std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(draws.below(i + 1))]);
    const auto factor = [&](double range) {
      return static_cast<float>(draws.uniform(std::max(0.0, 1 - range), 1 + range));
    };
    for (const int which : order) {
      if (which == 0 && brightness > 0) change_brightness(image, factor(brightness));
      if (which == 1 && contrast > 0) change_contrast(image, factor(contrast));
      if (which == 2 && saturation > 0) change_saturation(image, factor(saturation));
      if (which == 3 && hue > 0) turn_hue(image, static_cast<float>(draws.uniform(-hue, hue)));
    }
  }
};

void describe(config::Visitor& visit, ColorJitterOptions& options) {
  visit("brightness", options.brightness, "0.2: a factor from 0.8 to 1.2", config::non_negative);
  visit("contrast", options.contrast, "likewise, of the distance from the mean grey", config::non_negative);
  visit("saturation", options.saturation, "likewise, of the distance from the pixel's own grey",
        config::non_negative);
  visit("hue", options.hue, "the largest turn to either side, as a part of the whole circle",
        config::Bounds{0.0, 0.5, false});
}

const config::Registration<AugmentationOptions, ColorJitterOptions> color_jitter_registration;

}  // namespace
}  // namespace mtf
