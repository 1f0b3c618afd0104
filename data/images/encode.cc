#include "data/images/encode.h"

#include <png.h>

#include <csetjmp>
#include <new>

#include "engine/base/check.h"

namespace mtf {
namespace {

/// libpng calls back with this. Errors leave its functions by longjmp, over frames without destructors.
struct PngWriter {
  std::vector<std::byte> file;
  png_structp png = nullptr;
  png_infop info = nullptr;

  ~PngWriter() { png_destroy_write_struct(&png, &info); }
};

void append_bytes(png_structp png, png_bytep data, size_t size) {
  auto& writer = *static_cast<PngWriter*>(png_get_io_ptr(png));
  const auto* const bytes = reinterpret_cast<const std::byte*>(data);
  writer.file.insert(writer.file.end(), bytes, bytes + size);
}

/// False on an error.
bool write_png(PngWriter& writer, const Image& image, png_bytepp rows) {
  if (setjmp(png_jmpbuf(writer.png))) return false;
  png_set_write_fn(writer.png, &writer, append_bytes, nullptr);
  png_set_IHDR(writer.png, writer.info, static_cast<png_uint_32>(image.cols),
               static_cast<png_uint_32>(image.rows), 8,
               image.channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(writer.png, writer.info);
  png_write_image(writer.png, rows);
  png_write_end(writer.png, nullptr);
  return true;
}

}  // namespace

std::vector<std::byte> encode_png(const Image& image) {
  MTF_CHECK(image.channels == 1 || image.channels == 3, "{} channels", image.channels);
  PngWriter writer;
  writer.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  if (writer.png) writer.info = png_create_info_struct(writer.png);
  if (!writer.info) throw std::bad_alloc();
  std::vector<png_bytep> rows;
  for (int64_t r = 0; r < image.rows; ++r) rows.push_back(const_cast<png_bytep>(image.row(r)));
  const bool is_written = write_png(writer, image, rows.data());
  MTF_CHECK(is_written, "libpng refuses an image of {} x {} pixels", image.rows, image.cols);
  return std::move(writer.file);
}

}  // namespace mtf
