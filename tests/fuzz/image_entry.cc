// The entries for PNG and JPEG files. The checksums of a PNG file are repaired, too: few changed files would pass them.
#include <zlib.h>

#include "data/images/decode.h"
#include "engine/base/check.h"
#include "tests/fuzz/entries.h"
#include "tests/fuzz/expectations.h"

namespace mtf::fuzz {
namespace {

void decode(std::string_view input) {
  static const std::string path = "input";
  const ImageLimits limits{.pixels = 1 << 18};
  for (const int64_t channels : {1, 3}) {
    succeeds([&] {
      const Image image = decode_image({path, std::as_bytes(std::span(input)), channels, limits});
      MTF_CHECK(image.channels == channels && image.rows * image.cols <= limits.pixels &&
                    std::ssize(image.pixels) == image.rows * image.cols * channels,
                "{} bytes of {} x {} x {}", image.pixels.size(), image.rows, image.cols, image.channels);
      for (const ResizeRule rule : {ResizeRule::kStretch, ResizeRule::kCrop, ResizeRule::kPad}) {
        const Image small = resized(image, 5, 7, rule);
        MTF_CHECK(std::ssize(small.pixels) == 35 * channels, "{} bytes", small.pixels.size());
      }
    });
  }
}

/// Returns the PNG file with the checksums that its chunks should have.
std::string with_checksums(std::string_view input) {
  std::string file(input);
  const auto byte = [&](size_t at) { return static_cast<size_t>(static_cast<unsigned char>(file[at])); };
  for (size_t at = 8; at + 12 <= file.size();) {
    const size_t length = byte(at) << 24 | byte(at + 1) << 16 | byte(at + 2) << 8 | byte(at + 3);
    if (length > file.size() - at - 12) break;
    const uLong checksum =
        ::crc32(0, reinterpret_cast<const Bytef*>(file.data() + at + 4), static_cast<unsigned>(length + 4));
    for (size_t i = 0; i < 4; ++i) file[at + 8 + length + i] = static_cast<char>(checksum >> (24 - 8 * i));
    at += length + 12;
  }
  return file;
}

}  // namespace

void run_png(std::string_view input) {
  decode(input);
  decode(with_checksums(input));
}

void run_jpeg(std::string_view input) { decode(input); }

}  // namespace mtf::fuzz
