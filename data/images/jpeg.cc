#include <fmt/format.h>
#include <jerror.h>
#include <jpeglib.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>

#include "data/images/image.h"
#include "data/input_file.h"
#include "engine/base/printable.h"

namespace mtf {
namespace {

constexpr int kExifMarker = JPEG_APP0 + 1;
constexpr int kMostScans = 200;  ///< more only make a small file take long

/// libjpeg calls back with these. Errors leave its functions by longjmp, over frames without destructors.
struct JpegReader {
  jpeg_decompress_struct decoder{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf escape;
  char message[JMSG_LENGTH_MAX] = "";

  ~JpegReader() { jpeg_destroy_decompress(&decoder); }
};

JpegReader& reader_of(j_common_ptr info) { return *static_cast<JpegReader*>(info->client_data); }

[[noreturn]] void fail(j_common_ptr info) {
  JpegReader& reader = reader_of(info);
  (*info->err->format_message)(info, reader.message);
  std::longjmp(reader.escape, 1);
}

/// Warnings that mean that pixels are missing or wrong are errors.
void warn(j_common_ptr info, int level) {
  if (level >= 0) return;
  const int code = info->err->msg_code;
  if (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE) fail(info);
}

void ignore(j_common_ptr) {}

void count_scans(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMostScans) return;
  JpegReader& reader = reader_of(info);
  std::snprintf(reader.message, sizeof(reader.message), "more than %d scans", kMostScans);
  std::longjmp(reader.escape, 1);
}

/// Reads the header; false on an error.
bool read_header(JpegReader& reader, std::span<const std::byte> bytes) {
  if (setjmp(reader.escape)) return false;
  jpeg_create_decompress(&reader.decoder);
  reader.decoder.progress = &reader.progress;
  jpeg_mem_src(&reader.decoder, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_save_markers(&reader.decoder, kExifMarker, 0xffff);
  jpeg_read_header(&reader.decoder, TRUE);
  return true;
}

bool start(JpegReader& reader) {
  if (setjmp(reader.escape)) return false;
  jpeg_start_decompress(&reader.decoder);
  return true;
}

bool read_rows(JpegReader& reader, uint8_t* pixels, int64_t row_bytes) {
  if (setjmp(reader.escape)) return false;
  while (reader.decoder.output_scanline < reader.decoder.output_height) {
    JSAMPROW row = pixels + reader.decoder.output_scanline * row_bytes;
    jpeg_read_scanlines(&reader.decoder, &row, 1);
  }
  jpeg_finish_decompress(&reader.decoder);
  return true;
}

/// Reads numbers of a TIFF structure, big- or little-endian.
class Tiff {
 public:
  explicit Tiff(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  /// Returns the orientation, 1 to 8; 1 where the structure says nothing or is damaged.
  int orientation() const {
    constexpr uint32_t kOrientationTag = 0x0112, kShort = 3;
    if (bytes_.size() < 8) return 1;
    const uint32_t entries_at = number(4, 4), entries = number(entries_at, 2);
    for (uint32_t i = 0; i < entries; ++i) {
      const uint64_t entry = uint64_t{entries_at} + 2 + 12 * uint64_t{i};
      if (entry + 12 > bytes_.size()) return 1;
      if (number(entry, 2) != kOrientationTag || number(entry + 2, 2) != kShort) continue;
      const uint32_t value = number(entry + 8, 2);
      return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
    }
    return 1;
  }

 private:
  /// 0 where the bytes are not there.
  uint32_t number(uint64_t at, int count) const {
    if (at + count > bytes_.size()) return 0;
    const bool little = bytes_[0] == 'I';
    uint32_t value = 0;
    for (int i = 0; i < count; ++i) value = value << 8 | bytes_[at + (little ? count - 1 - i : i)];
    return value;
  }

  std::span<const uint8_t> bytes_;
};

int orientation_of(const jpeg_decompress_struct& decoder) {
  constexpr std::string_view kExif("Exif\0\0", 6);
  for (const jpeg_marker_struct* marker = decoder.marker_list; marker; marker = marker->next) {
    if (marker->marker != kExifMarker || marker->data_length <= kExif.size()) continue;
    if (std::memcmp(marker->data, kExif.data(), kExif.size()) != 0) continue;
    return Tiff({marker->data + kExif.size(), marker->data_length - kExif.size()}).orientation();
  }
  return 1;
}

/// The image as it is to be seen. Orientations 2 to 8: mirrored, turned by 180 degrees, upside down, transposed, and so on
/// (EXIF 2.3, table 6).
Image turned(Image image, int orientation) {
  if (orientation == 1) return image;
  const bool transposed = orientation >= 5;
  Image result{
      transposed ? image.cols : image.rows, transposed ? image.rows : image.cols, image.channels, {}};
  result.pixels.resize(image.pixels.size());
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_below = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  uint8_t* output = result.pixels.data();
  for (int64_t r = 0; r < result.rows; ++r) {
    for (int64_t c = 0; c < result.cols; ++c) {
      int64_t row = transposed ? c : r, col = transposed ? r : c;
      if (from_below) row = image.rows - 1 - row;
      if (from_right) col = image.cols - 1 - col;
      output = std::copy_n(image.row(row) + col * image.channels, image.channels, output);
    }
  }
  return result;
}

/// Converts an image of four channels; Adobe's programs store the inverse of each.
Image from_cmyk(const Image& image, bool inverted, int64_t channels) {
  Image rgb{image.rows, image.cols, 3,
            std::vector<uint8_t>(static_cast<size_t>(image.rows * image.cols * 3))};
  uint8_t* output = rgb.pixels.data();
  for (size_t i = 0; i < image.pixels.size(); i += 4) {
    const auto part = [&](size_t ink) {
      return inverted ? image.pixels[i + ink] : 255 - image.pixels[i + ink];
    };
    for (size_t ink = 0; ink < 3; ++ink) *output++ = static_cast<uint8_t>((part(ink) * part(3) + 127) / 255);
  }
  return channels == 1 ? to_grey(rgb) : rgb;
}

}  // namespace

Image decode_jpeg(const ImageFile& file) {
  JpegReader reader;
  reader.decoder.err = jpeg_std_error(&reader.errors);
  reader.decoder.client_data = &reader;
  reader.errors.error_exit = fail;
  reader.errors.emit_message = warn;
  reader.errors.output_message = ignore;
  reader.progress.progress_monitor = count_scans;
  const auto refuse = [&] {
    throw_bad_file(file.path, fmt::format("the JPEG file is damaged ({})", printable(reader.message)),
                   "a whole PNG or JPEG file");
  };
  if (!read_header(reader, file.bytes)) refuse();
  const int orientation = orientation_of(reader.decoder);  // the markers are gone when the last row is read
  Image image{reader.decoder.image_height, reader.decoder.image_width, file.channels, {}};
  check_image_size(file, image.rows, image.cols);
  const bool is_cmyk =
      reader.decoder.jpeg_color_space == JCS_CMYK || reader.decoder.jpeg_color_space == JCS_YCCK;
  reader.decoder.out_color_space = is_cmyk ? JCS_CMYK : file.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  if (is_cmyk) image.channels = 4;
  if (!start(reader)) refuse();
  const int64_t row_bytes = image.cols * image.channels;
  image.pixels.resize(static_cast<size_t>(image.rows * row_bytes));
  if (!read_rows(reader, image.pixels.data(), row_bytes)) refuse();
  if (is_cmyk) image = from_cmyk(image, reader.decoder.saw_Adobe_marker, file.channels);
  return turned(std::move(image), orientation);
}

}  // namespace mtf
