#include "data/text/text_cache.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <vector>

#include "data/input_file.h"
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/config/types.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kNanoseconds = 1'000'000'000;
int64_t nanoseconds(const timespec& time) { return int64_t{time.tv_sec} * kNanoseconds + time.tv_nsec; }

/// Returns a text that changes when the file is written or replaced; nullopt if such a change could be
/// missed.
std::optional<std::string> identity_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  const int64_t written = std::max(nanoseconds(status.st_mtim), nanoseconds(status.st_ctim));
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  // File times are coarse: a file that was written just now could be written again with the same times.
  if (nanoseconds(now) - written < 2 * kNanoseconds) return std::nullopt;
  return fmt::format("{} {} {} {} {}", status.st_dev, status.st_ino, status.st_size,
                     nanoseconds(status.st_mtim), nanoseconds(status.st_ctim));
}

std::string hash_of_bytes(const std::string& path) {
  InputFile file(path, "a file", InputFile::Compression::kNone);
  Hash128 hash;
  std::vector<std::byte> buffer(1 << 20);
  while (const int64_t got = file.read(buffer.data(), static_cast<int64_t>(buffer.size())))
    hash.add(std::span(buffer).first(static_cast<size_t>(got)));
  return hash.hex();
}

/// The name of the checksum in the metadata of a store.
constexpr const char* kChecksum = "checksum";

/// Writes a hash to the cache. Errors are ignored, since the hash can be computed again.
void keep(const std::string& record, const std::string& text) {
  std::error_code ignored;
  fs::create_directories(directory_of(record), ignored);
  const std::string temporary = partial_path(record);
  std::ofstream file(temporary);
  file << text;
  file.close();
  std::error_code error;
  if (file) fs::rename(temporary, record, error);
  if (!file || error) fs::remove(temporary, ignored);
}

}  // namespace

std::string default_cache_directory() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  const std::string parent = cache && *cache == '/' ? std::string(cache) : config::expand_home("~/.cache");
  return parent + "/mtf-train";
}

void make_cache_directory(const std::string& directory, std::string_view what) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (!error && ::access(directory.c_str(), W_OK) != 0)
    error = std::error_code(errno, std::generic_category());
  if (error)
    throw Error(ErrorKind::kSystem,
                fmt::format("{} cannot be kept in {}: {}", what, directory, system_message(error.value())),
                "a directory that can be written, as `data.cache`");
}

std::string store_checksum(std::span<const StoredTensor> tensors,
                           const std::map<std::string, std::string>& metadata) {
  std::map<std::string, std::string> parts = metadata;
  parts.erase(kChecksum);
  for (const StoredTensor& tensor : tensors) {
    const bool is_compared = tensor.data.size() <= kMostCompared;
    parts["tensor " + tensor.name] =
        fmt::format("{} {}", tensor.data.size(), is_compared ? hash128_hex(tensor.data) : "");
  }
  std::string text;
  for (const auto& [name, part] : parts) text += fmt::format("{}: {}\n", name, part);
  return hash128_hex(text);
}

SafetensorsFile read_store(const std::string& path) {
  SafetensorsFile file(path);
  const auto checksum = file.metadata().find(kChecksum);
  if (checksum == file.metadata().end() ||
      checksum->second != store_checksum(file.tensors(), file.metadata()))
    throw_damaged_store(path);
  return file;
}

void throw_damaged_store(const std::string& path) {
  throw Error(ErrorKind::kCheckpoint, fmt::format("{} is damaged", path),
              "remove it: the next run makes it again");
}

void write_store(const std::string& path, std::span<const StoredTensor> tensors,
                 const std::map<std::string, std::string>& metadata) {
  std::map<std::string, std::string> with_checksum = metadata;
  with_checksum[kChecksum] = store_checksum(tensors, metadata);
  try {
    write_safetensors(path, tensors, with_checksum);
  } catch (const Error& error) {
    const std::string& message = error.problems().front().message;  // names a file in the cache
    const size_t colon = message.rfind(": ");
    throw Error(error.kind(),
                fmt::format("tokenised texts cannot be kept in {}: {}", directory_of(path),
                            colon == std::string::npos ? message : message.substr(colon + 2)),
                "a directory with enough room, as `data.cache`");
  }
}

std::string content_hash(const std::string& path, const std::string& cache_directory) {
  const std::string record = fmt::format("{}/files/{}", cache_directory,
                                         hash128_hex(fs::absolute(path).lexically_normal().string()));
  const std::optional<std::string> before = identity_of(path);
  if (before) {
    std::ifstream file(record);
    std::string identity, hash;
    if (std::getline(file, identity) && std::getline(file, hash) && identity == *before) return hash;
  }
  const std::string hash = hash_of_bytes(path);
  if (before && identity_of(path) == before) keep(record, fmt::format("{}\n{}\n", *before, hash));
  return hash;
}

}  // namespace mtf
