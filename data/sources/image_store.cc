#include "data/sources/image_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "data/text/text_cache.h"
#include "engine/base/counted.h"
#include "engine/base/hash.h"
#include "engine/base/signals.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kWhat = "decoded images";
constexpr int64_t kImagesOfThread = 16;  ///< decoded between two writes

int64_t nanoseconds_of(const timespec& time) { return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

/// The bytes that the file system of a store has free, with those that its unfinished files take; nothing if it is not known.
/// The directory, or its parents, need not exist yet.
std::optional<int64_t> free_bytes(const std::string& path) {
  fs::path directory = directory_of(path);
  std::error_code ignored;
  while (!fs::exists(directory, ignored) && directory.has_relative_path())
    directory = directory.parent_path();
  struct statvfs status {};
  if (::statvfs(directory.c_str(), &status) != 0) return std::nullopt;
  auto bytes = static_cast<int64_t>(status.f_bavail * status.f_frsize);
  for (const std::string& left : partial_files(path)) {
    std::error_code error;
    const uintmax_t size = fs::file_size(left, error);
    if (!error) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

/// A file that gets its name when it is complete, and is removed if an error or a signal comes before.
class UnfinishedFile {
 public:
  explicit UnfinishedFile(const std::string& path)
      : path_(path),
        temporary_(partial_path(path)),
        guard_(temporary_),
        file_(temporary_, O_WRONLY | O_CREAT | O_TRUNC, 0666) {
    if (!file_.open()) cannot_keep(file_.error());
  }
  ~UnfinishedFile() {
    if (!published_) ::unlink(temporary_.c_str());
  }
  UnfinishedFile(const UnfinishedFile&) = delete;
  UnfinishedFile& operator=(const UnfinishedFile&) = delete;

  void append(std::span<const std::byte> bytes) {
    if (const int error = file_.write(bytes)) cannot_keep(error);
  }
  void publish() {
    if (const int error = file_.sync()) cannot_keep(error);
    std::error_code error;
    fs::rename(temporary_, path_, error);
    if (error) cannot_keep(error.value());
    published_ = true;
    sync_directory(directory_of(path_));
  }

 private:
  [[noreturn]] void cannot_keep(int error) const {
    throw Error(ErrorKind::kSystem,
                fmt::format("{} cannot be kept in {}: {}", kWhat, directory_of(path_), system_message(error)),
                "a directory with enough room, as `data.cache`, or `store_limit: 0`");
  }

  std::string path_, temporary_;
  RemovedBySignal guard_;
  File file_;
  bool published_ = false;
};

void build(const std::string& path, const std::vector<std::string>& files, const ImageFormat& format,
           const SourceContext& context, const std::string& key, WorkerPool& pool) {
  UnfinishedFile store(path);
  std::vector<std::byte> header(ImageStore::kHeaderBytes, std::byte{0});
  std::memcpy(header.data(), ImageStore::kMagic.data(), ImageStore::kMagic.size());
  store.append(header);
  const int64_t at_once = kImagesOfThread * pool.threads(), total = std::ssize(files);
  std::vector<std::byte> pixels(static_cast<size_t>(std::min(at_once, total) * format.bytes()));
  for (int64_t begin = 0; begin < total; begin += at_once) {
    const int64_t count = std::min(at_once, total - begin);
    pool.run(count, [&](int64_t i) {
      const Image image = load_image(files[static_cast<size_t>(begin + i)], format);
      std::memcpy(pixels.data() + i * format.bytes(), image.pixels.data(), image.pixels.size());
    });
    store.append(std::span(pixels).first(static_cast<size_t>(count * format.bytes())));
    if (context.progress) context.progress("decoding images", begin + count, total);
  }
  if (image_store_key(files, format) != key)
    throw Error(ErrorKind::kData,
                fmt::format("one of {} like {} changes while it is read", counted(total, "file"), files[0]),
                "start again when they are complete");
  store.publish();
}

}  // namespace

ImageStore::ImageStore(const std::string& path) : file_(path) {
  const std::span<const std::byte> bytes = file_.bytes();
  if (bytes.size() < kHeaderBytes || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0)
    throw_damaged_store(path);
}

std::string image_store_key(const std::vector<std::string>& paths, const ImageFormat& format) {
  Hash128 hash;
  const auto add = [&](const std::string& text) { hash.add(std::as_bytes(std::span(text))); };
  const int version = format.resize == ResizeRule::kCrop ? 2 : 1;  // raised when the pixels of a rule change
  add(fmt::format("images {}\n{} {} {} {}\n", version, format.rows, format.cols, format.channels,
                  static_cast<int>(format.resize)));
  for (const std::string& path : paths) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0)
      throw Error(ErrorKind::kData, fmt::format("cannot read {}: {}", path, system_message(errno)),
                  "a PNG or JPEG file");
    add(fmt::format("{}\n{} {} {}\n", fs::absolute(path).lexically_normal().string(), status.st_size,
                    nanoseconds_of(status.st_mtim), nanoseconds_of(status.st_ctim)));
  }
  return hash.hex();
}

std::optional<ImageStore> open_image_store(const std::vector<std::string>& paths, const ImageFormat& format,
                                           int64_t most_bytes, const SourceContext& context,
                                           WorkerPool& pool) {
  if (most_bytes == 0) return std::nullopt;
  const std::string directory = context.cache.empty() ? default_cache_directory() : context.cache;
  const std::string key = image_store_key(paths, format);
  const std::string path = fmt::format("{}/images-{}.pixels", directory, key);
  const int64_t bytes = std::ssize(paths) * format.bytes();
  std::error_code ignored;
  const bool is_there = fs::exists(path, ignored);
  const std::optional<int64_t> room = is_there ? std::nullopt : free_bytes(path);
  if (bytes > most_bytes || (room && bytes > *room / 2)) {
    if (context.note) {
      const std::string why =
          bytes > most_bytes
              ? fmt::format("`store_limit` is {:.1f} GB", static_cast<double>(most_bytes) / 1e9)
              : fmt::format("{} has {:.1f} GB free", directory, static_cast<double>(*room) / 1e9);
      context.note(fmt::format("{} take {:.1f} GB, and {}: they are decoded again in each epoch",
                               counted(std::ssize(paths), "image"), static_cast<double>(bytes) / 1e9, why));
    }
    return std::nullopt;
  }
  return open_or_build(
      path,
      [&] {
        ImageStore store(path);
        if (std::ssize(store.pixels()) != bytes) throw_damaged_store(path);
        return store;
      },
      [&] {
        build(path, paths, format, context, key, pool);
        const RemovedStores removed = remove_old_stores(directory);
        if (removed.count > 0 && context.note) context.note(removed.to_string(directory));
      },
      [&] {
        if (context.note) context.note("waiting for another process that decodes the same images");
      },
      context.note, kWhat);
}

}  // namespace mtf
