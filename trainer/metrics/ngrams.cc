#include "trainer/metrics/ngrams.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "engine/base/hash.h"

namespace mtf {
namespace {

uint64_t pack(uint32_t left, uint32_t right) { return static_cast<uint64_t>(left) << 32 | right; }

/// Returns the number of n-grams of `order` units in a text of `length` units.
size_t gram_count(size_t length, size_t order) { return length < order ? 0 : length - order + 1; }

}  // namespace

void WordNumbers::clear() {
  size_ = 0;
  if (++round_ == 0) {
    slots_.clear();
    round_ = 1;
  }
}

Units WordNumbers::operator()(std::span<const std::string_view> words) {
  Units units;
  units.reserve(words.size());
  for (const std::string_view word : words) units.push_back(number_of(word));
  return units;
}

uint32_t WordNumbers::number_of(std::string_view word) {
  if (2 * (size_ + 1) > slots_.size()) grow();
  const uint64_t hash = hash64(word);
  const size_t mask = slots_.size() - 1;
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    Slot& slot = slots_[i];
    if (slot.round != round_) slot = {word, hash, round_, size_++};
    if (slot.hash == hash && slot.word == word) return slot.number;
  }
}

void WordNumbers::grow() {
  constexpr size_t kFewest = 256;
  std::vector<Slot> old = std::move(slots_);
  slots_.assign(std::max(kFewest, 2 * old.size()), Slot{});
  const size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.round != round_) continue;
    size_t i = slot.hash & mask;
    while (slots_[i].round == round_) i = (i + 1) & mask;
    slots_[i] = slot;
  }
}

void PairNumbers::clear(size_t most) {
  constexpr size_t kFewest = 64;
  const size_t slots = std::bit_ceil(std::max(kFewest, 2 * most));
  size_ = 0;
  if (slots > slots_.size() || ++round_ == 0) {
    slots_.assign(std::max(slots, slots_.size()), Slot{});
    round_ = 1;
  }
  // A small segment after a long one uses only the first part of the table, which stays in the CPU cache.
  shift_ = 64 - std::countr_zero(slots);
}

size_t PairNumbers::slot_of(uint64_t pair) const {
  constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;
  const size_t mask = (size_t{1} << (64 - shift_)) - 1;
  size_t slot = pair * kGolden >> shift_;
  while (slots_[slot].round == round_ && slots_[slot].pair != pair) slot = (slot + 1) & mask;
  return slot;
}

uint32_t PairNumbers::add(uint32_t left, uint32_t right) {
  const uint64_t pair = pack(left, right);
  Slot& slot = slots_[slot_of(pair)];
  if (slot.round != round_) slot = {pair, round_, size_++};
  return slot.number;
}

uint32_t PairNumbers::find(uint32_t left, uint32_t right) const {
  const Slot& slot = slots_[slot_of(pack(left, right))];
  return slot.round == round_ ? slot.number : kUnknown;
}

/// Assigns numbers to the references' n-grams of an order. An n-gram is represented as the pair of the
/// (n-1)-gram at its position and its last unit.
void NgramMatcher::number_references(std::span<const Units> references, size_t order) {
  limits_.clear();
  for (size_t r = 0; r < references.size(); ++r) {
    const Units& units = references[r];
    counts_.assign(limits_.size(), 0);
    for (size_t i = 0; i < gram_count(units.size(), order); ++i) {
      const uint32_t number = numbers_.add(references_[r][i], units[i + order - 1]);
      references_[r][i] = number;
      if (number >= limits_.size()) {
        limits_.push_back(0);
        counts_.push_back(0);
      }
      limits_[number] = std::max(limits_[number], ++counts_[number]);
    }
  }
}

int64_t NgramMatcher::count_matches(const Units& hypothesis, size_t order) {
  int64_t matches = 0;
  counts_.assign(limits_.size(), 0);
  for (size_t i = 0; i < gram_count(hypothesis.size(), order); ++i) {
    uint32_t& gram = hypothesis_[i];
    if (gram == PairNumbers::kUnknown) continue;
    gram = numbers_.find(gram, hypothesis[i + order - 1]);
    if (gram != PairNumbers::kUnknown && ++counts_[gram] <= limits_[gram]) ++matches;
  }
  return matches;
}

void NgramMatcher::match(const Units& hypothesis, std::span<const Units> references,
                         std::span<int64_t> matches) {
  std::ranges::fill(matches, 0);
  hypothesis_.assign(hypothesis.size(), 0);
  size_t units = 0;
  references_.resize(references.size());
  for (size_t r = 0; r < references.size(); ++r) {
    references_[r].assign(references[r].size(), 0);
    units += references[r].size();
  }
  for (size_t order = 1; order <= matches.size(); ++order) {
    numbers_.clear(units);
    number_references(references, order);
    matches[order - 1] = count_matches(hypothesis, order);
    if (matches[order - 1] == 0) break;  // longer n-grams cannot match either
  }
}

}  // namespace mtf
