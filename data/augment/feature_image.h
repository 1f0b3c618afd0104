// Features that are images. Their dimensions are found by name, so that they may stand in any order.
//
//   const std::optional<FeatureImage> order = image_of(feature);
//   order->read(value, pixels);   // [channels, rows, cols] becomes [rows, cols, channels]
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "data/augment/float_image.h"
#include "data/source.h"

namespace mtf {

/// How a value of a feature holds an image.
struct FeatureImage {
  ImageShape shape;
  std::array<int64_t, 3> strides;  ///< numbers from a row, a column and a channel to the next

  /// True if the value is [rows, cols, channels] itself.
  bool is_in_order() const {
    return strides[0] == shape.cols * shape.channels && strides[1] == shape.channels;
  }
  /// Copies a value to the pixels of an image, [rows, cols, channels].
  void read(const float* value, float* pixels) const;
  /// Copies the pixels of an image to a value.
  void write(const float* pixels, float* value) const;
};

/// Returns how the feature holds an image: float32, with dimensions called `rows` and `cols` and at most one other, the
/// channels; nothing for other features.
std::optional<FeatureImage> image_of(const Feature& feature);

}  // namespace mtf
