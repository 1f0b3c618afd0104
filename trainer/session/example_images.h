// Images of examples as people look at them: which feature holds them, colours, names of classes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/augment/augmented_source.h"
#include "data/images/image.h"
#include "trainer/config/config.h"

namespace mtf {

/// Returns the index of the feature `data.image`; nothing if there is none that can be drawn: an image (image_of) of 1 or 3
/// channels.
std::optional<size_t> image_feature(const Config& config, const std::vector<Feature>& features);

/// The numbers that are drawn black and white: 0 and 1, or the least and the largest of images with others.
class BrightnessRange {
 public:
  /// Widens the range to the numbers of an image.
  void include(const std::vector<float>& image);
  bool is_default() const { return least() == 0 && most() == 1; }
  float least() const { return is_wide() ? least_ : 0; }
  float most() const { return is_wide() ? most_ : 1; }

 private:
  bool is_wide() const;

  float least_ = 0, most_ = 1;
};

/// Returns an image of `shape`, with the channels of `shape` or as RGB.
Image drawn(const std::vector<float>& image, const ImageShape& shape, const BrightnessRange& range,
            int64_t channels);

/// Returns the name of a class; its number where `names` has none.
std::string class_text(const std::vector<std::string>& names, int64_t label);

}  // namespace mtf
