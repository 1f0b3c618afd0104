// The cache directory of tokenised texts and decoded images, which several processes may share.
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
#include <string_view>

#include "data/text/old_stores.h"
#include "engine/base/error.h"
#include "engine/base/file.h"
#include "engine/base/file_lock.h"
#include "engine/safetensors/safetensors.h"

namespace mtf {

/// Returns $XDG_CACHE_HOME/mtf-train, or ~/.cache/mtf-train.
std::string default_cache_directory();

/// What the cache keeps, for messages.
inline constexpr std::string_view kTokenisedTexts = "tokenised texts";

/// Creates the directory if it does not exist. Throws Error (kSystem) when it cannot be created or written; `what` begins
/// the message.
void make_cache_directory(const std::string& directory, std::string_view what = kTokenisedTexts);

/// Calls write_safetensors(). Its errors are rethrown with a hint to the option `data.cache`.
void write_store(const std::string& path, std::span<const StoredTensor> tensors,
                 const std::map<std::string, std::string>& metadata);

/// Returns the XXH3-128 hash of a file's bytes. It is cached in `cache_directory` and reused while the file
/// has the same inode, size and times, unless the file was written within the last two seconds. Throws Error
/// when the file cannot be read.
std::string content_hash(const std::string& path, const std::string& cache_directory);

/// Opens a store and marks it as used; nullopt if the file does not exist or is damaged.
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
    return std::nullopt;  // damaged: it will be built again
  }
}

/// Opens `path`; if it does not exist yet, `build` writes it first. One of several processes builds, the
/// others call `waiting` and wait. `build` must publish the file atomically, when it is complete. The
/// directory must be writable only if the file does not exist.
template <class Store>
Store open_or_build(const std::string& path, const std::function<void()>& build,
                    const std::function<void()>& waiting, std::string_view what = kTokenisedTexts) {
  if (std::optional<Store> store = try_open<Store>(path)) return std::move(*store);
  make_cache_directory(directory_of(path), what);
  const FileLock lock(path + ".lock", waiting);
  if (std::optional<Store> store = try_open<Store>(path)) return std::move(*store);
  build();
  return Store(path);
}

}  // namespace mtf
