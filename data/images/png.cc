#include <fmt/format.h>
#include <png.h>

#include <csetjmp>
#include <cstring>

#include "data/images/image.h"
#include "data/input_file.h"
#include "engine/base/printable.h"

namespace mtf {
namespace {

/// libpng calls back with this. Errors leave its functions by longjmp, over frames without destructors.
struct PngReader {
  std::span<const std::byte> rest;
  char message[160] = "";
  png_structp png = nullptr;
  png_infop info = nullptr;

  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
};

void read_bytes(png_structp png, png_bytep output, size_t count) {
  auto& reader = *static_cast<PngReader*>(png_get_io_ptr(png));
  if (reader.rest.size() < count) png_error(png, "the file is cut off");
  std::memcpy(output, reader.rest.data(), count);
  reader.rest = reader.rest.subspan(count);
}

void fail(png_structp png, png_const_charp message) {
  auto& reader = *static_cast<PngReader*>(png_get_error_ptr(png));
  std::strncpy(reader.message, message, sizeof(reader.message) - 1);
  png_longjmp(png, 1);
}

void ignore(png_structp, png_const_charp) {}

constexpr size_t kMostChunkBytes = 8 << 20;
constexpr unsigned kMostChunks = 1000;

/// Reads everything up to the pixels; false on an error.
bool read_header(PngReader& reader) {
  if (setjmp(png_jmpbuf(reader.png))) return false;
  png_set_read_fn(reader.png, &reader, read_bytes);
  png_set_user_limits(reader.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // the number of pixels is checked
  png_set_chunk_malloc_max(reader.png, kMostChunkBytes);
  png_set_chunk_cache_max(reader.png, kMostChunks);
  png_read_info(reader.png, reader.info);
  return true;
}

/// Asks for 8 bits, grey or RGB, and allocates memory for rows; false on an error.
bool start(PngReader& reader, bool grey) {
  if (setjmp(png_jmpbuf(reader.png))) return false;
  png_set_scale_16(reader.png);
  png_set_strip_alpha(reader.png);
  const png_byte type = png_get_color_type(reader.png, reader.info);
  if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(reader.png);
  if (!(type & PNG_COLOR_MASK_COLOR)) {
    png_set_expand_gray_1_2_4_to_8(reader.png);
    if (!grey) png_set_gray_to_rgb(reader.png);
  }
  png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
  return true;
}

bool read_pixels(PngReader& reader, png_bytepp rows) {
  if (setjmp(png_jmpbuf(reader.png))) return false;
  png_read_image(reader.png, rows);
  png_read_end(reader.png, nullptr);
  return true;
}

}  // namespace

Image decode_png(const ImageFile& file) {
  PngReader reader{file.bytes};
  reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, fail, ignore);
  if (reader.png) reader.info = png_create_info_struct(reader.png);
  if (!reader.info) throw std::bad_alloc();
  const auto refuse = [&] {
    throw_bad_file(file.path, fmt::format("the PNG file is damaged ({})", printable(reader.message)),
                   "a whole PNG or JPEG file");
  };
  if (!read_header(reader)) refuse();
  Image image;
  image.rows = png_get_image_height(reader.png, reader.info);
  image.cols = png_get_image_width(reader.png, reader.info);
  check_image_size(file, image.rows, image.cols);
  if (!start(reader, file.channels == 1)) refuse();
  image.channels = png_get_channels(reader.png, reader.info);
  const auto row_bytes = static_cast<int64_t>(png_get_rowbytes(reader.png, reader.info));
  if (row_bytes != image.cols * image.channels || (image.channels != 1 && image.channels != 3))
    throw_bad_file(file.path, fmt::format("{} channels of {} bytes a row", image.channels, row_bytes),
                   "a PNG file of grey or RGB");
  image.pixels.resize(static_cast<size_t>(image.rows * row_bytes));
  std::vector<png_bytep> rows(static_cast<size_t>(image.rows));
  for (int64_t r = 0; r < image.rows; ++r) rows[static_cast<size_t>(r)] = image.row(r);
  if (!read_pixels(reader, rows.data())) refuse();
  return file.channels == 1 && image.channels == 3 ? to_grey(image) : std::move(image);
}

}  // namespace mtf
