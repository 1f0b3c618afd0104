// Scales images to a size.
#pragma once

#include <cstdint>

#include "data/images/image.h"
#include "engine/config/types.h"

namespace mtf {

/// How an image of another shape becomes one of the wanted size.
enum class ResizeRule {
  kStretch,  ///< rows and columns are scaled each by itself
  kCrop,     ///< the largest part in the middle that has the wanted shape is scaled
  kPad       ///< the whole image is scaled; what is left at two sides is black
};
config::EnumNames enum_names(ResizeRule);

/// Returns the image scaled to `rows` x `cols` with a triangle filter that is widened where the image becomes smaller, so
/// that every pixel counts. Bit for bit what Image.resize of Pillow up to 12.0 does with the filter BILINEAR
/// (13.0.0 rounds otherwise).
Image resized(const Image& image, int64_t rows, int64_t cols, ResizeRule rule);

}  // namespace mtf
