// The cache directory of tokenised texts and decoded images, which several processes may share.
//
//   const std::string path = fmt::format("{}/{}.safetensors", directory, key);
//   const Store store = open_or_build(path, [&] { return Store(path); }, [&] { build(path); },
//                                     [&] { say("waiting"); }, say);
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

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

/// Arrays of more bytes are not compared with the checksum when a store is opened: that would delay the start of a run.
inline constexpr size_t kMostCompared = size_t{256} << 20;

/// Returns the XXH3-128 hash of the metadata and of all tensors, but of those beyond kMostCompared bytes only the size.
std::string store_checksum(std::span<const StoredTensor> tensors,
                           const std::map<std::string, std::string>& metadata);

/// Calls write_safetensors() with the checksum added to the metadata. Its errors are rethrown with a hint to the option
/// `data.cache`.
void write_store(const std::string& path, std::span<const StoredTensor> tensors,
                 const std::map<std::string, std::string>& metadata);

/// Maps a file of write_store(). Throws Error (kCheckpoint) when it does not exist or its content has not the checksum.
SafetensorsFile read_store(const std::string& path);

/// Throws Error (kCheckpoint), which says that the store `path` is damaged and what helps.
[[noreturn]] void throw_damaged_store(const std::string& path);

/// Returns the XXH3-128 hash of a file's bytes. It is cached in `cache_directory` and reused while the file
/// has the same inode, size and times, unless the file was written within the last two seconds. Throws Error
/// when the file cannot be read.
std::string content_hash(const std::string& path, const std::string& cache_directory);

/// Returns what `open` returns and marks the store as used; nullopt if it does not exist, or if `open` throws Error
/// (kCheckpoint): the store is damaged, of which `damaged` is told.
template <class Open>
std::optional<std::invoke_result_t<Open>> try_open(const std::string& path, const Open& open,
                                                   const std::function<void()>& damaged = {}) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::nullopt;
  try {
    std::optional<std::invoke_result_t<Open>> store(open());
    mark_used(path);
    return store;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCheckpoint) throw;
    if (damaged) damaged();
    return std::nullopt;
  }
}

/// Opens the store `path` with `open`, which throws Error (kCheckpoint) for one that is damaged. If it does not exist yet
/// or is damaged, `build` writes it first; `note` receives a line about the damage. One of several processes builds, the
/// others call `waiting` and wait. `build` must publish the file atomically, when it is complete; what processes that were
/// killed have left of it is removed. The directory must be writable only if something is built.
template <class Open>
std::invoke_result_t<Open> open_or_build(const std::string& path, const Open& open,
                                         const std::function<void()>& build,
                                         const std::function<void()>& waiting,
                                         const std::function<void(const std::string&)>& note,
                                         std::string_view what = kTokenisedTexts) {
  const auto damaged = [&] {
    if (note) note(path + " is damaged and is built anew");
  };
  if (auto store = try_open(path, open, damaged)) return std::move(*store);
  make_cache_directory(directory_of(path), what);
  const FileLock lock(path + ".lock", waiting);
  if (auto store = try_open(path, open)) return std::move(*store);
  remove_partial_stores(path);
  build();
  return open();
}

}  // namespace mtf
