// Reproduces the random numbers of numpy.random.default_rng(seed) bit for bit.
//
//   NumpyRandom random(12345);
//   random.below(10);   // like rng.integers(10) or rng.choice(10)
#pragma once

#include <cstdint>

namespace mtf {

/// PCG64 (O'Neill's PCG XSL RR 128/64), seeded by numpy's SeedSequence.
class NumpyRandom {
 public:
  explicit NumpyRandom(uint64_t seed);

  uint64_t next64();
  /// Returns the low half of a 64-bit number, and by the next call its high half.
  uint32_t next32();
  /// Returns a uniformly distributed number in [0, bound) by Lemire's method; bound is at least 1.
  uint32_t below(uint32_t bound);
  /// Returns the next element of a single call rng.integers(2, size=..., dtype=bool): the bits of 32-bit
  /// numbers, lowest bit first.
  bool next_bit();

 private:
  __extension__ using Wide = unsigned __int128;
  void step();

  Wide state_ = 0;
  Wide increment_ = 0;
  bool has_half_ = false;
  uint32_t half_ = 0;
  uint32_t bits_ = 0;
  int bits_left_ = 0;
};

}  // namespace mtf
