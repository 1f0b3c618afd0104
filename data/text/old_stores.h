// Removes stores from a cache directory that no run uses any more. Every change of texts, vocabularies or
// options makes new stores, so the old ones would accumulate.
//
//   mark_used(path);                                   // whenever a store is opened
//   remove_partial_stores(path);                       // before one is made
//   if (!was_there) remove_old_stores(directory);      // whenever one was made
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace mtf {

/// A store is removed when no run has opened it for this long.
constexpr std::chrono::days kStoresKept{30};

/// What a process writes of a store is removed when it has not been written to for this long: the process was killed. Not
/// every file system shows the locks of other machines, where it may be at work.
constexpr std::chrono::hours kPartialStoresKept{1};

/// Removes what processes that were killed have left of the store `path`; errors are ignored.
void remove_partial_stores(const std::string& path);

/// Sets the modification time of the file to now; errors are ignored.
void mark_used(const std::string& path);

struct RemovedStores {
  int64_t count = 0;
  int64_t bytes = 0;

  /// Returns "removed 3 stores (1,234.5 MB) from DIRECTORY, which no run has used for 30 days"
  std::string to_string(const std::string& directory) const;
};

/// Removes the old stores (tokens-KEY.safetensors, rows-KEY.safetensors, images-KEY.pixels) of a directory and no other file,
/// under a lock. Processes that have one open can continue to use it. A store that cannot be removed is
/// skipped.
RemovedStores remove_old_stores(const std::string& directory);

}  // namespace mtf
