// Decoded images in the cache directory: a file of pixels that is mapped, as token stores are.
//
//   const std::string key = image_store_key(paths, format);
//   std::optional<ImageStore> store = open_image_store(paths, format, context);
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/images/decode.h"
#include "data/text/text_settings.h"
#include "data/worker_pool.h"
#include "engine/base/file.h"

namespace mtf {

/// `images-KEY.pixels`: 64 bytes that begin with kMagic, then the pixels of all images, [images, rows, cols, channels].
class ImageStore {
 public:
  /// Throws Error (kCheckpoint) when the file does not exist or does not begin with its header.
  explicit ImageStore(const std::string& path);

  std::span<const std::byte> pixels() const { return file_.bytes().subspan(kHeaderBytes); }

  static constexpr std::string_view kMagic = "mtf-train images 1\n";
  static constexpr size_t kHeaderBytes = 64;

 private:
  MappedFile file_;
};

/// Returns a hash of the format and of the files: their paths, sizes and times.
std::string image_store_key(const std::vector<std::string>& paths, const ImageFormat& format);

/// Opens the store of these files; if the cache does not have it yet, or not in its size, decodes them with `pool` and
/// writes it, which one of several processes does. Nothing when the images take more than `most_bytes` or half of what the
/// disk has free: that is reported to context.note. Throws Error: kData for a file that is no image or changes meanwhile,
/// kSystem when the cache cannot be written.
std::optional<ImageStore> open_image_store(const std::vector<std::string>& paths, const ImageFormat& format,
                                           int64_t most_bytes, const SourceContext& context,
                                           WorkerPool& pool);

}  // namespace mtf
