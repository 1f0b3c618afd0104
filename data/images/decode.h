// Decodes image files to images of one size.
//
//   const ImageFormat format{.rows = 224, .cols = 224};
//   const Image image = load_image("cat.jpg", format);
#pragma once

#include <cstdint>
#include <string>

#include "data/images/image.h"
#include "data/images/resize.h"

namespace mtf {

/// What every image of a source becomes.
struct ImageFormat {
  int64_t rows = 224;
  int64_t cols = 224;
  int64_t channels = 3;
  ResizeRule resize = ResizeRule::kCrop;
  ImageLimits limits = {};

  int64_t bytes() const { return rows * cols * channels; }
};

/// Decodes a PNG or JPEG file; the first bytes tell which it is. Throws Error (kData), which names `path`.
Image decode_image(const ImageFile& file);

/// Reads a file, decodes and scales it. Throws Error (kData), which names the file.
Image load_image(const std::string& path, const ImageFormat& format);

}  // namespace mtf
