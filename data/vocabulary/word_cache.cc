#include "data/vocabulary/word_cache.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "engine/base/hash.h"

namespace mtf {
namespace {

constexpr int kPlaceBits = 32;

/// The upper half is the hash's, the lower one the place in the cells, which is never 0.
uint64_t slot_of(uint64_t hash, size_t cell) { return (hash >> kPlaceBits << kPlaceBits) | (cell + 1); }
bool may_be(uint64_t slot, uint64_t hash) { return slot >> kPlaceBits == hash >> kPlaceBits; }
size_t cell_of(uint64_t slot) { return (slot & 0xFFFFFFFF) - 1; }

/// Lengths of a word and of its ids, in one cell.
int32_t lengths(size_t bytes, size_t ids) { return static_cast<int32_t>(bytes << 16 | ids); }
size_t ids_of(int32_t lengths) { return static_cast<uint32_t>(lengths) & 0xFFFF; }
size_t bytes_of(int32_t lengths) { return static_cast<uint32_t>(lengths) >> 16; }

}  // namespace

WordCache::WordCache()
    : cells_(std::make_unique_for_overwrite<int32_t[]>(kCells)),
      slots_(std::make_unique<std::atomic<Slot>[]>(kSlots)) {}

std::string_view WordCache::word_at(const int32_t* entry) const {
  return {reinterpret_cast<const char*>(entry + kHeader + ids_of(entry[2])), bytes_of(entry[2])};
}

/// The slot of the word, or the empty one where it would be. There always is one: half of them are empty.
WordCache::Place WordCache::look_up(std::string_view word, uint64_t hash) const {
  for (size_t index = hash % kSlots;; index = (index + 1) % kSlots) {
    const Slot slot = slots_[index].load(std::memory_order_acquire);
    if (slot == 0 || (may_be(slot, hash) && word_at(&cells_[cell_of(slot)]) == word)) return {index, slot};
  }
}

std::optional<CachedWord> WordCache::find(std::string_view word) const {
  const Slot slot = look_up(word, hash64(word)).slot;
  if (slot == 0) return std::nullopt;
  const int32_t* entry = &cells_[cell_of(slot)];
  return CachedWord{.ids = {entry + kHeader, ids_of(entry[2])},
                    .cost = std::bit_cast<float>(entry[0]),
                    .limit = std::bit_cast<float>(entry[1])};
}

void WordCache::add(std::string_view word, const CachedWord& value) {
  const size_t letters = (word.size() + sizeof(int32_t) - 1) / sizeof(int32_t);
  const size_t cells = kHeader + value.ids.size() + letters;
  const uint64_t hash = hash64(word);
  const std::lock_guard lock(adding_);
  const Place place = look_up(word, hash);
  if (place.slot != 0 || words_ == most_words || kCells - used_ < cells) return;
  int32_t* entry = &cells_[used_];
  entry[0] = std::bit_cast<int32_t>(value.cost);
  entry[1] = std::bit_cast<int32_t>(value.limit);
  entry[2] = lengths(word.size(), value.ids.size());
  std::ranges::copy(value.ids, entry + kHeader);
  std::memcpy(entry + kHeader + value.ids.size(), word.data(), word.size());
  slots_[place.index].store(slot_of(hash, used_), std::memory_order_release);
  used_ += cells;
  ++words_;
}

}  // namespace mtf
