// Counter-based random numbers (Philox4x32-10). Every number is a pure function of (name, seed, stream, step,
// element), so that it does not depend on the layout, the number of threads, microbatches, the device or a
// restart.
//
//   const PhiloxKey key = random_key("layer_1/kernel", seed);
//   const float value = normal(key, RandomStream::kInitialValues, 0, element);
//
// `element` is the global row-major index in the declared dimension order of the noise shape. Four
// consecutive elements share one block: kernels call philox() once for elements 4b .. 4b+3.
#pragma once

#include <cstdint>
#include <string_view>

namespace mtf {

/// The use of the numbers. Streams with the same key never share a block.
enum class RandomStream : uint32_t {
  kInitialValues = 0,
  kDropout = 1,
  kSampling = 2,
  kData = 3,
  kRounding = 4
};

struct PhiloxKey {
  uint32_t low = 0;
  uint32_t high = 0;

  friend bool operator==(const PhiloxKey&, const PhiloxKey&) = default;
};

/// 128 bits: a counter, or the four random words computed from it (word i belongs to element 4 * block + i).
struct PhiloxBlock {
  uint32_t words[4] = {0, 0, 0, 0};

  friend bool operator==(const PhiloxBlock&, const PhiloxBlock&) = default;
};

/// Returns the two halves of XXH3_64(name, seed). `name` is the name of a variable, or scope path + operation
/// name + occurrence.
PhiloxKey random_key(std::string_view name, uint64_t seed);

/// Returns the counter of the block of elements 4 * block .. 4 * block + 3:
///   word 0 = block bits 0..31, word 1 = block bits 32..63, word 2 = step bits 0..31,
///   word 3 = step bits 32..55 << 8 | stream.       0 <= step < 2^56.
[[gnu::always_inline]] constexpr PhiloxBlock philox_counter(RandomStream stream, uint64_t step,
                                                            uint64_t block) {
  return {{static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), static_cast<uint32_t>(step),
           static_cast<uint32_t>(step >> 32) << 8 | static_cast<uint32_t>(stream)}};
}

/// Philox4x32 with 10 rounds (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3;
/// SC'11).
[[gnu::always_inline]] constexpr PhiloxBlock philox(PhiloxBlock counter, PhiloxKey key) {
  auto& [c0, c1, c2, c3] = counter.words;
  uint32_t k0 = key.low, k1 = key.high;
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * c0;
    const uint64_t product1 = uint64_t{0xCD9E8D57} * c2;
    c0 = static_cast<uint32_t>(product1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(product1);
    c2 = static_cast<uint32_t>(product0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(product0);
    // Weyl sequences: the fractions of the golden ratio and of sqrt(3).
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return counter;
}

/// Returns the 32 random bits of one element.
constexpr uint32_t random_bits(PhiloxKey key, RandomStream stream, int64_t step, int64_t element) {
  const auto index = static_cast<uint64_t>(element);
  return philox(philox_counter(stream, static_cast<uint64_t>(step), index / 4), key).words[index % 4];
}

/// Returns (bits >> 8) * 2^-24 + 2^-25, which is exact: one of the 2^24 midpoints of equal intervals of (0,
/// 1).
constexpr double uniform_from_bits(uint32_t bits) { return (bits >> 8) * 0x1p-24 + 0x1p-25; }

/// Returns floor(keep * 2^32) for `keep` in 0..1. Dropout keeps an element iff its bits are below this
/// threshold; 2^32 keeps all elements.
inline uint64_t keep_threshold(double keep) { return static_cast<uint64_t>(keep * 0x1p32); }

/// Returns a number that is uniform on (0, 1].
float uniform(PhiloxKey key, RandomStream stream, int64_t step, int64_t element);
/// Returns a number that is uniform on [low, high]: low + (high - low) * u in double, rounded once.
float uniform(PhiloxKey key, RandomStream stream, int64_t step, int64_t element, double low, double high);

/// Returns a normal number: the inverse distribution function of the uniform number, in double, rounded once
/// to float32.
float normal(PhiloxKey key, RandomStream stream, int64_t step, int64_t element, double mean = 0,
             double stddev = 1);

/// Returns a normal number within mean +- 2 stddev: the uniform number is mapped into (Phi(-2), Phi(2)), then
/// as in normal(). Its standard deviation is 0.8796 * stddev.
float truncated_normal(PhiloxKey key, RandomStream stream, int64_t step, int64_t element, double mean = 0,
                       double stddev = 1);

/// Returns normal_quantile(p); checks that 0 < p < 1.
double inverse_normal_cdf(double p);
/// Returns gumbel_quantile(p); checks that 0 < p < 1.
double inverse_gumbel_cdf(double p);

}  // namespace mtf
