// A pseudo-random permutation, the order of the rows of an epoch. It needs no memory and O(1) work per row,
// so training can start at any row of any epoch.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/core/random.h"

namespace mtf {

/// The order of epoch e of n rows: the bijection P(seed, e) of 0 .. n-1, with 1 <= n <= 2^62 and 0 <= e <
/// 2^56.
///
/// A Feistel network of 8 rounds over the next even power of two 4^b >= n (Luby and Rackoff: How to construct
/// pseudorandom permutations, 1988), walked along its cycle until the value is below n (Black and Rogaway:
/// Ciphers with arbitrary finite domains, 2002; fewer than 4 steps on average). Round function: the low b
/// bits of Philox with key XXH3_64("data/permutation", seed), stream kData, step e, element 4 * (round * 2^32
/// + right half).
///
/// A permutation that is asked often remembers values of the round function; it is for one thread at a time.
class Permutation {
 public:
  Permutation(int64_t rows, uint64_t seed, int64_t epoch);

  int64_t operator()(int64_t index);
  bool is_of(int64_t rows, uint64_t seed, int64_t epoch) const {
    return rows == rows_ && seed == seed_ && epoch == epoch_;
  }

 private:
  uint64_t feistel(uint64_t value);
  /// The round function.
  uint32_t word(uint64_t round, uint64_t right) const;

  int64_t rows_;
  uint64_t seed_;
  int64_t epoch_;
  PhiloxKey key_;
  int half_bits_;                ///< b
  int asked_ = 0;                ///< how often, until it remembers
  std::vector<uint32_t> words_;  ///< [round, right half] the words that are known; empty: none
};

}  // namespace mtf
