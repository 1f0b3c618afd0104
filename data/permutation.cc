#include "data/permutation.h"

#include <bit>

#include "engine/base/check.h"

namespace mtf {
namespace {

constexpr int feistel_rounds = 8;

}  // namespace

Permutation::Permutation(int64_t rows, uint64_t seed, int64_t epoch)
    : rows_(rows), epoch_(epoch), key_(random_key("data/permutation", seed)) {
  MTF_CHECK(rows >= 1 && rows <= int64_t{1} << 62, "a permutation of {} rows", rows);
  MTF_CHECK(epoch >= 0 && epoch < int64_t{1} << 56, "epoch {}", epoch);
  const int bits = std::bit_width(static_cast<uint64_t>(rows - 1));  // 2^bits >= rows
  half_bits_ = (bits + 1) / 2;
}

int64_t Permutation::operator()(int64_t index) const {
  MTF_CHECK(index >= 0 && index < rows_, "row {} of {}", index, rows_);
  auto value = static_cast<uint64_t>(index);
  do {
    value = feistel(value);
  } while (value >= static_cast<uint64_t>(rows_));
  return static_cast<int64_t>(value);
}

uint64_t Permutation::feistel(uint64_t value) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = value >> half_bits_;
  uint64_t right = value & mask;
  for (uint64_t round = 0; round < feistel_rounds; ++round) {
    const PhiloxBlock counter =
        philox_counter(RandomStream::kData, static_cast<uint64_t>(epoch_), round << 32 | right);
    const uint64_t mixed = left ^ (philox(counter, key_).words[0] & mask);
    left = right;
    right = mixed;
  }
  return left << half_bits_ | right;
}

}  // namespace mtf
