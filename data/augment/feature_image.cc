#include "data/augment/feature_image.h"

#include <algorithm>

namespace mtf {
namespace {

/// Calls use(i, j) for each number of an image: i is its place in [rows, cols, channels], j that in the value.
template <class Use>
void for_each_number(const FeatureImage& image, const Use& use) {
  int64_t i = 0;
  for (int64_t r = 0; r < image.shape.rows; ++r) {
    for (int64_t c = 0; c < image.shape.cols; ++c) {
      const int64_t pixel = r * image.strides[0] + c * image.strides[1];
      for (int64_t k = 0; k < image.shape.channels; ++k) use(i++, pixel + k * image.strides[2]);
    }
  }
}

}  // namespace

void FeatureImage::read(const float* value, float* pixels) const {
  if (is_in_order()) {
    std::copy_n(value, shape.size(), pixels);
  } else {
    for_each_number(*this, [&](int64_t i, int64_t j) { pixels[i] = value[j]; });
  }
}

void FeatureImage::write(const float* pixels, float* value) const {
  for_each_number(*this, [&](int64_t i, int64_t j) { value[j] = pixels[i]; });
}

std::optional<FeatureImage> image_of(const Feature& feature) {
  const Shape& shape = feature.shape;
  const std::optional<int> rows = shape.find("rows"), cols = shape.find("cols");
  if (feature.dtype != DType::kFloat32 || !rows || !cols || shape.rank() > 3) return std::nullopt;
  const std::vector<int64_t> strides = shape.strides();
  FeatureImage image{{shape[*rows].size, shape[*cols].size, 1}, {strides[*rows], strides[*cols], 1}};
  if (shape.rank() == 3) {
    const int channels = 3 - *rows - *cols;
    image.shape.channels = shape[channels].size;
    image.strides[2] = strides[channels];
  }
  return image;
}

}  // namespace mtf
