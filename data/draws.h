// The random numbers of one example, for an augmentation or for an objective of texts. They come one after the other, and
// each is a pure function of the key, the example, the epoch and its number, so that no layout, thread or restart changes
// them.
//
//   Draws draws(random_key("data.augment/0", seed), example, epoch);
//   if (draws.chance(0.5)) rotate(image, draws.uniform(-10, 10));
#pragma once

#include <cstdint>

#include "engine/core/random.h"

namespace mtf {

class Draws {
 public:
  Draws(PhiloxKey key, int64_t example, int64_t epoch) : key_(key), example_(example), epoch_(epoch) {}

  uint32_t bits();
  /// Uniform on (0, 1).
  double uniform() { return uniform_from_bits(bits()); }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  /// A whole number from 0 to n - 1; n is below 2^31.
  int64_t below(int64_t n) { return static_cast<int64_t>(uint64_t{bits()} * static_cast<uint64_t>(n) >> 32); }
  bool chance(double probability) { return uniform() < probability; }
  double normal();
  /// A draw from the symmetric beta distribution Beta(alpha, alpha), alpha > 0.
  double beta(double alpha);

 private:
  double log_gamma_variate(double alpha);

  PhiloxKey key_;
  int64_t example_;
  int64_t epoch_;
  uint64_t drawn_ = 0;
  PhiloxBlock block_ = {};  ///< the numbers drawn_ / 4 * 4 and the three after it, once one of them was drawn
};

}  // namespace mtf
