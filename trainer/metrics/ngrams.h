// Counts the matching n-grams of a hypothesis and its references, for BLEU and chrF.
//
//   const std::vector<Units> references = {reference_a, reference_b};
//   std::array<int64_t, 4> matches;
//   NgramMatcher().match(hypothesis, references, matches);   // matches[n - 1]: number of matching n-grams
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace mtf {

/// Words or characters as numbers; equal units have equal numbers.
using Units = std::vector<uint32_t>;

/// Assigns numbers to the words of one segment.
class WordNumbers {
 public:
  void clear();
  /// Returns the numbers of the words. The words must stay valid until the next clear().
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

/// Assigns numbers to pairs of numbers: a hash table with open addressing that is cleared in constant time.
class PairNumbers {
 public:
  static constexpr uint32_t kUnknown = 0xffffffff;

  /// Clears the table and makes room for `most` pairs.
  void clear(size_t most);
  /// Returns the number of the pair: 0, 1, 2, ... in order of first occurrence.
  uint32_t add(uint32_t left, uint32_t right);
  /// Returns the number of the pair, or kUnknown if it was not added.
  uint32_t find(uint32_t left, uint32_t right) const;

 private:
  struct Slot {
    uint64_t pair = 0;
    uint32_t round = 0;  ///< the clear() after which it was filled; others are empty
    uint32_t number = 0;
  };
  size_t slot_of(uint64_t pair) const;

  std::vector<Slot> slots_;
  int shift_ = 64;  ///< 64 minus the binary logarithm of the number of slots in use
  uint32_t round_ = 0;
  uint32_t size_ = 0;
};

/// Counts common n-grams. It reuses its memory for the next segment.
class NgramMatcher {
 public:
  /// Sets matches[n - 1], for all n up to its size, to the number of n-grams of the hypothesis that occur in
  /// a reference. Each is counted at most as often as it occurs in the reference that has it most often.
  void match(const Units& hypothesis, std::span<const Units> references, std::span<int64_t> matches);

 private:
  /// The numbers of the n-grams that begin at each position of a text.
  using Grams = std::vector<uint32_t>;
  void number_references(std::span<const Units> references, size_t order);
  int64_t count_matches(const Units& hypothesis, size_t order);

  PairNumbers numbers_;
  Grams hypothesis_;
  std::vector<Grams> references_;
  std::vector<int64_t> limits_;  ///< by n-gram number: its largest count in a reference
  std::vector<int64_t> counts_;  ///< by n-gram number: its count in the current text
};

}  // namespace mtf
