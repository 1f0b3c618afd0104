#include "data/augment/warp.h"

#include <cmath>
#include <numbers>

#include "engine/base/reproducible_math.h"

namespace mtf {
namespace {

/// The four pixels around a place, with their weights; a pixel outside has weight 0 and stands for the first one.
struct Neighbours {
  const float* pixels[4];
  float weights[4];
};

/// `channels` 0: any number, known only now.
template <int channels>
void warp_rows(const FloatImage& image, const Eigen::Affine2f& to_input, float* output) {
  const auto rows = static_cast<int>(image.shape.rows), cols = static_cast<int>(image.shape.cols);
  const auto depth = channels > 0 ? channels : static_cast<int>(image.shape.channels);
  const float* const from = image.pixels();
  const Eigen::Vector2f step = to_input.linear().col(0);
  for (int r = 0; r < rows; ++r) {
    const Eigen::Vector2f start = to_input * Eigen::Vector2f(0, static_cast<float>(r));
    for (int c = 0; c < cols; ++c, output += depth) {
      const float x = start.x() + static_cast<float>(c) * step.x();
      const float y = start.y() + static_cast<float>(c) * step.y();
      if (!(x > -1 && y > -1 && x < static_cast<float>(cols) && y < static_cast<float>(rows))) {
        for (int k = 0; k < depth; ++k) output[k] = 0;
        continue;
      }
      const int left = static_cast<int>(x + 1) - 1, top = static_cast<int>(y + 1) - 1;
      const float right_part = x - static_cast<float>(left), low_part = y - static_cast<float>(top);
      const float weights[4] = {(1 - right_part) * (1 - low_part), right_part * (1 - low_part),
                                (1 - right_part) * low_part, right_part * low_part};
      const int64_t at = (int64_t{top} * cols + left) * depth;
      if (left >= 0 && top >= 0 && left + 1 < cols && top + 1 < rows) {
        const float *a = from + at, *b = a + int64_t{cols} * depth;
        for (int k = 0; k < depth; ++k)
          output[k] =
              weights[0] * a[k] + weights[1] * a[depth + k] + weights[2] * b[k] + weights[3] * b[depth + k];
        continue;
      }
      Neighbours near{};
      for (int i = 0; i < 4; ++i) {
        const int row = top + i / 2, col = left + i % 2;
        const bool inside = row >= 0 && row < rows && col >= 0 && col < cols;
        near.pixels[i] = inside ? from + (int64_t{row} * cols + col) * depth : from;
        near.weights[i] = inside ? weights[i] : 0;
      }
      for (int k = 0; k < depth; ++k) {
        output[k] = 0;
        for (int i = 0; i < 4; ++i) output[k] += near.weights[i] * near.pixels[i][k];
      }
    }
  }
}

}  // namespace

void warp(FloatImage& image, const Eigen::Affine2f& to_input) {
  if (image.shape.channels == 1)
    warp_rows<1>(image, to_input, image.spare());
  else if (image.shape.channels == 3)
    warp_rows<3>(image, to_input, image.spare());
  else
    warp_rows<0>(image, to_input, image.spare());
  image.take_spare();
}

Eigen::Affine2f about_center(const ImageShape& shape, const Eigen::Matrix2f& forward,
                             const Eigen::Vector2f& shift) {
  const Eigen::Vector2f center(static_cast<float>(shape.cols - 1) / 2,
                               static_cast<float>(shape.rows - 1) / 2);
  Eigen::Affine2f to_input = Eigen::Affine2f::Identity();
  to_input.translate(center).rotate(Eigen::Matrix2f(forward.inverse())).translate(-center - shift);
  return to_input;
}

Eigen::Matrix2f rotation(double degrees) {
  const double angle = degrees * std::numbers::pi / 180;
  const auto c = static_cast<float>(reproducible::cos(angle)),
             s = static_cast<float>(reproducible::sin(angle));
  return (Eigen::Matrix2f() << c, -s, s, c).finished();
}

}  // namespace mtf
