// Images in memory, and what every decoder of a file format is given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mtf {

/// An image with 8 bits for each channel: [rows, cols, channels], row-major. One channel is grey, three are red, green
/// and blue.
struct Image {
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t channels = 0;
  std::vector<uint8_t> pixels;

  uint8_t* row(int64_t r) { return pixels.data() + r * cols * channels; }
  const uint8_t* row(int64_t r) const { return pixels.data() + r * cols * channels; }
};

/// Bounds of what a file may make a decoder allocate.
struct ImageLimits {
  /// The most pixels of an image: rows * cols.
  int64_t pixels = 100'000'000;
  /// The largest file, in bytes.
  int64_t file_bytes = int64_t{1} << 28;
};

/// A file that is to be decoded.
struct ImageFile {
  const std::string& path;  ///< for messages
  std::span<const std::byte> bytes;
  int64_t channels = 3;  ///< the image is to have so many: 1 or 3
  const ImageLimits& limits;
};

/// Throws Error (kData) when an image has more pixels than the limits allow, or none.
void check_image_size(const ImageFile& file, int64_t rows, int64_t cols);

/// Decodes a PNG file. Palettes, 1 to 16 bits, and interlaced files are supported; transparency is left out, 16 bits are
/// rounded to 8. Throws Error (kData).
Image decode_png(const ImageFile& file);
/// Decodes a JPEG file, baseline or progressive; CMYK becomes RGB. The image is turned as the EXIF orientation says. A
/// file that is cut off is an error. Throws Error (kData).
Image decode_jpeg(const ImageFile& file);

/// Makes an image of three channels one of grey: (19595 red + 38470 green + 7471 blue) / 65536, rounded.
Image to_grey(const Image& image);

}  // namespace mtf
