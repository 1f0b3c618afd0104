#include "trainer/session/example_images.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace mtf {

std::optional<size_t> image_feature(const Config& config, const std::vector<Feature>& features) {
  const auto found = std::ranges::find(features, config.data.image.text, &Feature::name);
  if (found == features.end()) return std::nullopt;
  const std::optional<FeatureImage> image = image_of(*found);
  if (!image || (image->shape.channels != 1 && image->shape.channels != 3)) return std::nullopt;
  return static_cast<size_t>(found - features.begin());
}

void BrightnessRange::include(const std::vector<float>& image) {
  for (const float x : image) {
    least_ = std::min(least_, x);
    most_ = std::max(most_, x);
  }
}

bool BrightnessRange::is_wide() const {
  constexpr float kRounding = 1e-3f;
  return least_ < -kRounding || most_ > 1 + kRounding;
}

Image drawn(const std::vector<float>& image, const ImageShape& shape, const BrightnessRange& range,
            int64_t channels) {
  Image result{shape.rows, shape.cols, channels, {}};
  for (int64_t pixel = 0; pixel < shape.pixels(); ++pixel) {
    for (int64_t k = 0; k < channels; ++k) {
      const int64_t channel = shape.channels == channels ? k : 0;
      const float x = image[static_cast<size_t>(pixel * shape.channels + channel)];
      const float part = std::clamp((x - range.least()) / (range.most() - range.least()), 0.0f, 1.0f);
      result.pixels.push_back(static_cast<uint8_t>(std::lround(part * 255)));
    }
  }
  return result;
}

std::string class_text(const std::vector<std::string>& names, int64_t label) {
  const bool is_named = label >= 0 && label < std::ssize(names);
  return is_named ? names[static_cast<size_t>(label)] : fmt::to_string(label);
}

}  // namespace mtf
