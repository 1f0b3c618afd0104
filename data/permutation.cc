#include "data/permutation.h"

#include <bit>

#include "engine/base/check.h"

namespace mtf {
namespace {

constexpr int feistel_rounds = 8;
/// A permutation remembers words once it was asked so often, if there are at most 2^kRememberedBits right halves: the words of
/// larger ones fill more than 32 KiB, and each is asked for rarely.
constexpr int kAskedOften = 16, kRememberedBits = 10;
/// Stands for a word that is not known; no word has so many bits.
constexpr uint32_t kUnknown = ~uint32_t{0};

}  // namespace

Permutation::Permutation(int64_t rows, uint64_t seed, int64_t epoch)
    : rows_(rows), seed_(seed), epoch_(epoch), key_(random_key("data/permutation", seed)) {
  MTF_CHECK(rows >= 1 && rows <= int64_t{1} << 62, "a permutation of {} rows", rows);
  MTF_CHECK(epoch >= 0 && epoch < int64_t{1} << 56, "epoch {}", epoch);
  const int bits = std::bit_width(static_cast<uint64_t>(rows - 1));  // 2^bits >= rows
  half_bits_ = (bits + 1) / 2;
}

int64_t Permutation::operator()(int64_t index) {
  MTF_CHECK(index >= 0 && index < rows_, "row {} of {}", index, rows_);
  if (half_bits_ <= kRememberedBits && words_.empty() && ++asked_ == kAskedOften)
    words_.assign(static_cast<size_t>(feistel_rounds) << half_bits_, kUnknown);
  auto value = static_cast<uint64_t>(index);
  do {
    value = feistel(value);
  } while (value >= static_cast<uint64_t>(rows_));
  return static_cast<int64_t>(value);
}

uint32_t Permutation::word(uint64_t round, uint64_t right) const {
  const PhiloxBlock counter =
      philox_counter(RandomStream::kData, static_cast<uint64_t>(epoch_), round << 32 | right);
  return philox(counter, key_).words[0];
}

uint64_t Permutation::feistel(uint64_t value) {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = value >> half_bits_;
  uint64_t right = value & mask;
  for (uint64_t round = 0; round < feistel_rounds; ++round) {
    uint64_t mixed;
    if (words_.empty()) {
      mixed = word(round, right) & mask;
    } else {
      uint32_t& known = words_[round << half_bits_ | right];
      if (known == kUnknown) known = static_cast<uint32_t>(word(round, right) & mask);
      mixed = known;
    }
    mixed ^= left;
    left = right;
    right = mixed;
  }
  return left << half_bits_ | right;
}

}  // namespace mtf
