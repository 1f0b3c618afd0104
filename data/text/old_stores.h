// Stores of a cache directory that nobody uses any more: texts, vocabularies and options change, and each of
// them makes new ones.
//
//   mark_used(path);                                   // whenever a store is opened
//   if (!was_there) remove_old_stores(directory);      // whenever one was made
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace mtf {

/// A store that no run has opened for so long goes.
constexpr std::chrono::days kStoresKept{30};

/// Sets the time of the file to now, where that can be.
void mark_used(const std::string& path);

struct RemovedStores {
  int64_t count = 0;
  int64_t bytes = 0;

  /// "removed 3 token stores (1,234.5 MB) from DIRECTORY, which no run has used for 30 days"
  std::string to_string(const std::string& directory) const;
};

/// Removes the old stores of a directory and nothing else, under a lock: tokens-KEY.safetensors and
/// rows-KEY.safetensors. Processes that have one open go on with it. What cannot be removed stays.
RemovedStores remove_old_stores(const std::string& directory);

}  // namespace mtf
