// Affine maps of images, with bilinear interpolation.
//
//   warp(image, about_center(image.shape, Eigen::Matrix2f(Eigen::Rotation2Df(angle))));
#pragma once

#include <Eigen/Geometry>

#include "data/augment/float_image.h"

namespace mtf {

/// Pixel (col, row) of the result is the image at `to_input` * (col, row), interpolated between four pixels. Outside of the
/// image all is zero.
void warp(FloatImage& image, const Eigen::Affine2f& to_input);

/// The map for warp() that turns, shears or scales the image about its centre by `forward` (x to the right, y downwards),
/// then moves it by `shift`.
Eigen::Affine2f about_center(const ImageShape& shape, const Eigen::Matrix2f& forward,
                             const Eigen::Vector2f& shift = Eigen::Vector2f::Zero());

/// The matrix of a rotation by `degrees`, clockwise as the image is seen.
Eigen::Matrix2f rotation(double degrees);

}  // namespace mtf
