// Matching n-grams of a hypothesis and its references, on which BLEU and chrF rest.
//
//   std::array<int64_t, 4> matches;
//   NgramMatcher().match(hypothesis, {reference_a, reference_b}, matches);   // matches[n - 1]: of n-grams
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace mtf {

/// Words or characters as numbers; equal numbers are equal units.
using Units = std::vector<uint32_t>;

/// Numbers for the words of one segment.
class WordNumbers {
 public:
  void clear();
  /// The words must live until the next clear().
  Units operator()(std::span<const std::string_view> words);

 private:
  struct Slot {
    std::string_view word;
    uint64_t hash = 0;
    uint32_t round = 0;  ///< the clear() after which it was filled; others are empty
    uint32_t number = 0;
  };
  uint32_t number_of(std::string_view word);
  void grow();

  std::vector<Slot> slots_;  ///< hash table with open addressing; at most half are filled
  uint32_t round_ = 1;
  uint32_t size_ = 0;
};

/// Numbers for pairs of numbers: a hash table with open addressing that is emptied in no time.
class PairNumbers {
 public:
  static constexpr uint32_t kUnknown = 0xffffffff;

  /// Empties the table and makes room for `most` pairs.
  void clear(size_t most);
  /// The number of the pair: 0, 1, 2, ... in the order in which pairs come first.
  uint32_t add(uint32_t left, uint32_t right);
  /// kUnknown when the pair was not added.
  uint32_t find(uint32_t left, uint32_t right) const;

 private:
  struct Slot {
    uint64_t pair = 0;
    uint32_t round = 0;  ///< the clear() after which it was filled; others are empty
    uint32_t number = 0;
  };
  size_t slot_of(uint64_t pair) const;

  std::vector<Slot> slots_;
  int shift_ = 64;  ///< 64 less the binary logarithm of the number of slots
  uint32_t round_ = 0;
  uint32_t size_ = 0;
};

/// Counts n-grams that are common. Keeps its memory from one segment to the next.
class NgramMatcher {
 public:
  /// Sets matches[n - 1], for all n up to its size, to the number of n-grams of the hypothesis that are in a
  /// reference, each counted at most as often as it is in the reference that has it most often.
  void match(const Units& hypothesis, std::span<const Units> references, std::span<int64_t> matches);

 private:
  /// The n-grams that begin at each place of a text, known by their numbers.
  using Grams = std::vector<uint32_t>;
  void number_references(std::span<const Units> references, size_t order);
  int64_t count_matches(const Units& hypothesis, size_t order);

  PairNumbers numbers_;
  Grams hypothesis_;
  std::vector<Grams> references_;
  std::vector<int64_t> limits_;  ///< by number of an n-gram: its largest count in a reference
  std::vector<int64_t> counts_;  ///< the same in the text at hand
};

}  // namespace mtf
