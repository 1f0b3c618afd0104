// The directory in which tokenised texts are kept, and how several processes share it.
//
//   const std::string path = fmt::format("{}/{}.safetensors", directory, key);
//   const Store store = open_or_build<Store>(path, [&] { build(path); }, [&] { say("waiting"); });
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "data/text/old_stores.h"
#include "engine/base/error.h"
#include "engine/base/file.h"
#include "engine/base/file_lock.h"
#include "engine/safetensors/safetensors.h"

namespace mtf {

/// $XDG_CACHE_HOME/mtf-train, or ~/.cache/mtf-train.
std::string default_cache_directory();

/// Makes the directory when it is not there. Throws Error (kSystem) when that cannot be.
void make_cache_directory(const std::string& directory);

/// As write_safetensors(); errors say which option of the configuration may help.
void write_store(const std::string& path, std::span<const StoredTensor> tensors,
                 const std::map<std::string, std::string>& metadata);

/// XXH3-128 of the bytes of a file. It is kept in `cache_directory` and not computed again while the file has
/// the same inode, size and times; what was written within two seconds before is not trusted. Throws Error
/// when the file cannot be read.
std::string content_hash(const std::string& path, const std::string& cache_directory);

/// A Store of a file that is there, whole and sound; it counts as used.
template <class Store>
std::optional<Store> try_open(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::nullopt;
  try {
    std::optional<Store> store(path);
    mark_used(path);
    return store;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCheckpoint) throw;
    return std::nullopt;  // damaged: it is built anew
  }
}

/// Opens `path`, or lets `build` write it first. Of several processes one builds and the others wait. `build`
/// puts the file under its name only when it is complete. A directory that has the file need not be writable.
template <class Store>
Store open_or_build(const std::string& path, const std::function<void()>& build,
                    const std::function<void()>& waiting) {
  if (std::optional<Store> store = try_open<Store>(path)) return std::move(*store);
  make_cache_directory(directory_of(path));
  const FileLock lock(path + ".lock", waiting);
  if (std::optional<Store> store = try_open<Store>(path)) return std::move(*store);
  build();
  return Store(path);
}

}  // namespace mtf
