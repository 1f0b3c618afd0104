// PNG and JPEG files for tests, written by libpng and libjpeg.
#pragma once

#include <jpeglib.h>
#include <png.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "data/images/image.h"

namespace mtf::testing {

/// Pixel (r, c) of channel k is 37 r + 91 c + 53 k + 11 r c, modulo 256.
inline Image pattern(int64_t rows, int64_t cols, int64_t channels) {
  Image image{rows, cols, channels, {}};
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c)
      for (int64_t k = 0; k < channels; ++k)
        image.pixels.push_back(static_cast<uint8_t>(37 * r + 91 * c + 53 * k + 11 * r * c));
  return image;
}

struct PngOptions {
  int type = PNG_COLOR_TYPE_RGB;
  int bits = 8;
  bool interlaced = false;
  std::vector<png_color> palette = {};
};

/// Returns a PNG file whose rows are `rows` of `bytes_per_row` bytes.
inline std::string png_file(int64_t rows, int64_t cols, const PngOptions& options,
                            const std::vector<uint8_t>& bytes) {
  std::string file;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &file,
      [](png_structp p, png_bytep data, size_t size) {
        static_cast<std::string*>(png_get_io_ptr(p))->append(reinterpret_cast<char*>(data), size);
      },
      nullptr);
  png_set_IHDR(png, info, static_cast<unsigned>(cols), static_cast<unsigned>(rows), options.bits,
               options.type, options.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (!options.palette.empty())
    png_set_PLTE(png, info, options.palette.data(), static_cast<int>(options.palette.size()));
  png_write_info(png, info);
  const size_t row_bytes = bytes.size() / static_cast<size_t>(rows);
  std::vector<png_bytep> pointers;
  for (int64_t r = 0; r < rows; ++r)
    pointers.push_back(const_cast<png_bytep>(bytes.data() + static_cast<size_t>(r) * row_bytes));
  png_write_image(png, pointers.data());
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return file;
}

inline std::string png_file(const Image& image, bool interlaced = false) {
  return png_file(image.rows, image.cols,
                  {image.channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, 8, interlaced, {}},
                  image.pixels);
}

/// Returns a JPEG file of the image; `orientation` 0: without EXIF data. Four channels are CMYK.
inline std::string jpeg_file(const Image& image, int quality = 95, int orientation = 0,
                             bool progressive = false) {
  jpeg_compress_struct encoder{};
  jpeg_error_mgr errors{};
  encoder.err = jpeg_std_error(&errors);
  jpeg_create_compress(&encoder);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&encoder, &memory, &size);
  encoder.image_width = static_cast<unsigned>(image.cols);
  encoder.image_height = static_cast<unsigned>(image.rows);
  encoder.input_components = static_cast<int>(image.channels);
  encoder.in_color_space = image.channels == 1 ? JCS_GRAYSCALE : image.channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&encoder);
  jpeg_set_quality(&encoder, quality, TRUE);
  if (progressive) jpeg_simple_progression(&encoder);
  jpeg_start_compress(&encoder, TRUE);
  if (orientation > 0) {
    std::string exif("Exif\0\0MM\0*\0\0\0\10\0\1\1\22\0\3\0\0\0\1\0", 25);
    exif += static_cast<char>(orientation);
    exif += std::string("\0\0\0\0\0\0", 6);
    jpeg_write_marker(&encoder, JPEG_APP0 + 1, reinterpret_cast<const JOCTET*>(exif.data()),
                      static_cast<unsigned>(exif.size()));
  }
  while (encoder.next_scanline < encoder.image_height) {
    auto* row = const_cast<JSAMPROW>(image.row(encoder.next_scanline));
    jpeg_write_scanlines(&encoder, &row, 1);
  }
  jpeg_finish_compress(&encoder);
  std::string file(reinterpret_cast<char*>(memory), size);
  jpeg_destroy_compress(&encoder);
  std::free(memory);
  return file;
}

}  // namespace mtf::testing
