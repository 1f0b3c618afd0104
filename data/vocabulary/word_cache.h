// Words and their token ids, for a vocabulary that encodes each word by itself.
//
//   std::optional<CachedWord> word = cache.find("Haus");
//   if (!word) cache.add("Haus", encode("Haus"));
//
// Several threads may use one; find() takes no lock. Words stay where they are until the cache is destroyed.
// When it is full, no more are added.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>

namespace mtf {

struct CachedWord {
  std::span<const int32_t> ids;
  float cost = 0;                                        ///< counts towards the limit of words
  float limit = std::numeric_limits<float>::infinity();  ///< the ids hold where a text costs less so far
};

class WordCache {
 public:
  /// Only those of these bytes that are used take memory; a table takes 4 MiB.
  static constexpr size_t bytes = size_t{32} << 20;
  static constexpr size_t most_words = size_t{1} << 18;

  WordCache();

  /// The ids last as long as the cache.
  std::optional<CachedWord> find(std::string_view word) const;
  /// Adds a copy of the word, unless it is there or there is no more room. The word has at most 65,535 bytes
  /// and as many ids.
  void add(std::string_view word, const CachedWord& value);

 private:
  /// An entry: cost, limit, numbers of bytes and of ids, the ids, and the bytes of the word.
  static constexpr size_t kHeader = 3;
  static constexpr size_t kCells = bytes / sizeof(int32_t);
  static constexpr size_t kSlots = 2 * most_words;

  /// Where an entry is, and bits of its word's hash, or 0.
  using Slot = uint64_t;
  struct Place {
    size_t index;
    Slot slot;
  };

  Place look_up(std::string_view word, uint64_t hash) const;
  std::string_view word_at(const int32_t* entry) const;

  std::unique_ptr<int32_t[]> cells_;  ///< not initialised before they are used
  std::unique_ptr<std::atomic<Slot>[]> slots_;
  std::mutex adding_;
  size_t used_ = 0;  ///< cells
  size_t words_ = 0;
};

}  // namespace mtf
