// Scales a part of an image to a size.
#pragma once

#include <cstdint>

#include "data/augment/float_image.h"

namespace mtf {

/// A part of an image: its first row and column, and how many; in general no whole numbers.
struct ImagePart {
  double top = 0;
  double left = 0;
  double rows = 0;
  double cols = 0;
};

/// The image becomes `part` of it, scaled to rows x cols with a triangle filter, which is bilinear interpolation where the
/// image grows, and is widened where it shrinks, so that every pixel counts.
void resample(FloatImage& image, const ImagePart& part, int64_t rows, int64_t cols);

/// The image becomes rows x cols pixels of it from (top, left) on; what lies outside of it is zero.
void cut(FloatImage& image, int64_t top, int64_t left, int64_t rows, int64_t cols);

}  // namespace mtf
