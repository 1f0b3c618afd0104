// A pseudo-random permutation, the order of the rows of an epoch. It needs no memory and O(1) work per row,
// so training can start at any row of any epoch.
#pragma once

#include <cstdint>

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
class Permutation {
 public:
  Permutation(int64_t rows, uint64_t seed, int64_t epoch);

  int64_t operator()(int64_t index) const;
  int64_t rows() const { return rows_; }

 private:
  uint64_t feistel(uint64_t value) const;

  int64_t rows_;
  int64_t epoch_;
  PhiloxKey key_;
  int half_bits_;  ///< b
};

}  // namespace mtf
