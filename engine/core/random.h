// Counter-based random numbers: every value is a pure function of (name, seed, stream, step, element), so no
// layout, thread count, microbatching, device or restart changes it. The generator is Philox4x32-10.
//
//   const PhiloxKey key = random_key("layer_1/kernel", seed);
//   const float value = normal(key, RandomStream::kInitialValues, 0, element);
//
// `element` is the global row-major index in the declared order of the noise shape. Four consecutive elements
// share one block: kernels call philox() once for elements 4b .. 4b+3.
#pragma once

#include <cstdint>
#include <string_view>

namespace mtf {

/// What the numbers are for. Streams of one key never share a block.
enum class RandomStream : uint32_t { kInitialValues = 0, kDropout = 1, kSampling = 2, kData = 3 };

struct PhiloxKey {
  uint32_t low = 0;
  uint32_t high = 0;

  friend bool operator==(const PhiloxKey&, const PhiloxKey&) = default;
};

/// 128 bits: a counter, or the four random words made from it (word i belongs to element 4 * block + i).
struct PhiloxBlock {
  uint32_t words[4] = {0, 0, 0, 0};

  friend bool operator==(const PhiloxBlock&, const PhiloxBlock&) = default;
};

/// The two halves of XXH3_64(name, seed). `name`: variable name, or scope path + operation name + occurrence.
PhiloxKey random_key(std::string_view name, uint64_t seed);

/// Counter of the block of four elements 4 * block .. 4 * block + 3:
///   word 0 = block bits 0..31, word 1 = block bits 32..63, word 2 = step bits 0..31,
///   word 3 = step bits 32..55 << 8 | stream.       0 <= step < 2^56.
[[gnu::always_inline]] constexpr PhiloxBlock philox_counter(RandomStream stream, uint64_t step,
                                                            uint64_t block) {
  return {{static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), static_cast<uint32_t>(step),
           static_cast<uint32_t>(step >> 32) << 8 | static_cast<uint32_t>(stream)}};
}

/// What the key grows by from round to round: the golden ratio and sqrt(3) - 1.
inline constexpr uint32_t philox_weyl0 = 0x9E3779B9;
inline constexpr uint32_t philox_weyl1 = 0xBB67AE85;

/// One round of Philox4x32 on the counter words c0 .. c3.
[[gnu::always_inline]] constexpr void philox_round(uint32_t& c0, uint32_t& c1, uint32_t& c2, uint32_t& c3,
                                                   uint32_t k0, uint32_t k1) {
  const uint64_t product0 = uint64_t{0xD2511F53} * c0;
  const uint64_t product1 = uint64_t{0xCD9E8D57} * c2;
  c0 = static_cast<uint32_t>(product1 >> 32) ^ c1 ^ k0;
  c1 = static_cast<uint32_t>(product1);
  c2 = static_cast<uint32_t>(product0 >> 32) ^ c3 ^ k1;
  c3 = static_cast<uint32_t>(product0);
}

/// Philox4x32 with 10 rounds (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3;
/// SC'11).
[[gnu::always_inline]] constexpr PhiloxBlock philox(PhiloxBlock counter, PhiloxKey key) {
  auto& [c0, c1, c2, c3] = counter.words;
  uint32_t k0 = key.low, k1 = key.high;
  for (int round = 0; round < 10; ++round) {
    philox_round(c0, c1, c2, c3, k0, k1);
    k0 += philox_weyl0;
    k1 += philox_weyl1;
  }
  return counter;
}

/// 32 random bits of one element.
constexpr uint32_t random_bits(PhiloxKey key, RandomStream stream, int64_t step, int64_t element) {
  const auto index = static_cast<uint64_t>(element);
  return philox(philox_counter(stream, static_cast<uint64_t>(step), index / 4), key).words[index % 4];
}

/// Elements that random_bits_batch() makes at once.
inline constexpr int64_t random_batch = 128;

/// The bits of the elements 4 * block .. 4 * block + 127, for kernels: inlined, its loops run over 32 blocks
/// side by side and are vectorised for the caller's instruction set (0.8 ns per element on one AVX-512 core;
/// philox() in a loop over blocks: 4 ns).
[[gnu::always_inline]] inline void random_bits_batch(PhiloxKey key, RandomStream stream, uint64_t step,
                                                     uint64_t block, uint32_t (&bits)[random_batch]) {
  constexpr int blocks = random_batch / 4;
  uint32_t c0[blocks], c1[blocks], c2[blocks], c3[blocks];
  for (int i = 0; i < blocks; ++i) {
    const PhiloxBlock counter = philox_counter(stream, step, block + static_cast<uint64_t>(i));
    c0[i] = counter.words[0];
    c1[i] = counter.words[1];
    c2[i] = counter.words[2];
    c3[i] = counter.words[3];
  }
  uint32_t k0 = key.low, k1 = key.high;
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < blocks; ++i) philox_round(c0[i], c1[i], c2[i], c3[i], k0, k1);
    k0 += philox_weyl0;
    k1 += philox_weyl1;
  }
  for (int i = 0; i < blocks; ++i) {
    bits[4 * i] = c0[i];
    bits[4 * i + 1] = c1[i];
    bits[4 * i + 2] = c2[i];
    bits[4 * i + 3] = c3[i];
  }
}

/// (bits >> 8) * 2^-24 + 2^-25, exact: the 2^24 midpoints of equal intervals of (0, 1).
constexpr double uniform_from_bits(uint32_t bits) { return (bits >> 8) * 0x1p-24 + 0x1p-25; }

/// The same, rounded once to float32 (the upper half of the values needs the rounding; the largest becomes
/// 1).
[[gnu::always_inline]] constexpr float uniform_float_from_bits(uint32_t bits) {
  return static_cast<float>(static_cast<int32_t>(bits >> 8)) * 0x1p-24f + 0x1p-25f;
}

/// Dropout keeps an element iff its bits < keep_threshold(keep) = floor(keep * 2^32); `keep` in 0..1. 2^32
/// keeps all.
inline uint64_t keep_threshold(double keep) { return static_cast<uint64_t>(keep * 0x1p32); }

/// Uniform on (0, 1].
float uniform(PhiloxKey key, RandomStream stream, int64_t step, int64_t element);
/// Uniform on [low, high]: low + (high - low) * u in double, rounded once.
float uniform(PhiloxKey key, RandomStream stream, int64_t step, int64_t element, double low, double high);

/// Normal by the inverse distribution function of the uniform value, in double, rounded once to float32.
float normal(PhiloxKey key, RandomStream stream, int64_t step, int64_t element, double mean = 0,
             double stddev = 1);

/// Normal restricted to mean +- 2 stddev: the uniform value mapped into (Phi(-2), Phi(2)), then as normal().
/// Its own standard deviation is 0.8796 * stddev.
float truncated_normal(PhiloxKey key, RandomStream stream, int64_t step, int64_t element, double mean = 0,
                       double stddev = 1);

/// z with Phi(z) = p, 0 < p < 1, to about 1 part in 10^16 (normal_quantile).
double inverse_normal_cdf(double p);

}  // namespace mtf
