#include "data/images/decode.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "data/input_file.h"
#include "engine/base/counted.h"

namespace mtf {
namespace {

constexpr std::string_view kPng = "\x89PNG\r\n\x1a\n", kJpeg = "\xff\xd8\xff";

/// Other formats, for messages.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kOthers = {{{"GIF8", "a GIF file"},
                                                                                   {"BM", "a BMP file"},
                                                                                   {"RIFF", "a WebP file"},
                                                                                   {"II*", "a TIFF file"},
                                                                                   {"MM", "a TIFF file"},
                                                                                   {"P6", "a PPM file"}}};

std::vector<std::byte> bytes_of(const std::string& path, int64_t most) {
  InputFile file(path, "a PNG or JPEG file", InputFile::Compression::kNone);
  std::vector<std::byte> bytes;
  int64_t got = 0;
  while (true) {
    const int64_t want = std::max<int64_t>(got, 1 << 17);
    bytes.resize(static_cast<size_t>(got + want));
    const int64_t part = file.read(bytes.data() + got, want);
    got += part;
    if (got > most) throw_bad_file(path, fmt::format("a file of more than {} bytes", most), "a smaller file");
    if (part < want) break;
  }
  bytes.resize(static_cast<size_t>(got));
  return bytes;
}

}  // namespace

void check_image_size(const ImageFile& file, int64_t rows, int64_t cols) {
  if (rows < 1 || cols < 1)
    throw_bad_file(file.path, fmt::format("an image of {} x {} pixels", rows, cols), "one pixel at least");
  if (rows > file.limits.pixels / cols)
    throw_bad_file(file.path,
                   fmt::format("an image of {} x {} pixels: more than {}", rows, cols,
                               counted(file.limits.pixels, "pixel")),
                   "a smaller image, or a larger `max_pixels`");
}

Image to_grey(const Image& image) {
  Image grey{image.rows, image.cols, 1, std::vector<uint8_t>(static_cast<size_t>(image.rows * image.cols))};
  const uint8_t* from = image.pixels.data();
  for (uint8_t& pixel : grey.pixels) {
    pixel = static_cast<uint8_t>((from[0] * 19595u + from[1] * 38470u + from[2] * 7471u + 0x8000u) >> 16);
    from += 3;
  }
  return grey;
}

Image decode_image(const ImageFile& file) {
  const std::string_view text(reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size());
  if (text.starts_with(kPng)) return decode_png(file);
  if (text.starts_with(kJpeg)) return decode_jpeg(file);
  if (text.empty()) throw_bad_file(file.path, "the file is empty", "a PNG or JPEG file");
  for (const auto& [begin, name] : kOthers) {
    if (text.starts_with(begin))
      throw_bad_file(file.path, fmt::format("this is {}", name), "a PNG or JPEG file");
  }
  throw_bad_file(file.path, "the file begins neither as PNG nor as JPEG", "a PNG or JPEG file");
}

Image load_image(const std::string& path, const ImageFormat& format) {
  const std::vector<std::byte> bytes = bytes_of(path, format.limits.file_bytes);
  const Image image = decode_image({path, bytes, format.channels, format.limits});
  return resized(image, format.rows, format.cols, format.resize);
}

}  // namespace mtf
