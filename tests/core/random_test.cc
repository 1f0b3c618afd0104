#include "engine/core/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "engine/base/hash.h"
#include "engine/core/quantiles.h"

namespace mtf {
namespace {

constexpr RandomStream initial = RandomStream::kInitialValues;

// The answers are from Random123 1.14, kat_vectors, philox4x32 10.
TEST(Philox, GivesTheKnownAnswersOfRandom123) {
  EXPECT_EQ(philox({{0, 0, 0, 0}}, {0, 0}), (PhiloxBlock{{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}));
  constexpr uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox({{ones, ones, ones, ones}}, {ones, ones}),
            (PhiloxBlock{{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}));
  EXPECT_EQ(philox({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, {0xa4093822, 0x299f31d0}),
            (PhiloxBlock{{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}));
}

TEST(Random, KeyIsTheHalvesOfTheHashedName) {
  const uint64_t hash = hash64("layer_1/kernel", 7);
  EXPECT_EQ(random_key("layer_1/kernel", 7),
            (PhiloxKey{static_cast<uint32_t>(hash), static_cast<uint32_t>(hash >> 32)}));
}

TEST(Random, CounterPacksElementStepAndStream) {
  EXPECT_EQ(philox_counter(RandomStream::kData, 0xab1234567890, 0x1122334455667788),
            (PhiloxBlock{{0x55667788, 0x11223344, 0x34567890, 0x00ab1203}}));
}

TEST(Random, ElementIsALaneOfItsBlock) {
  const PhiloxKey key = random_key("x", 1);
  const PhiloxBlock block = philox(philox_counter(RandomStream::kDropout, 9, 5), key);
  for (int64_t lane = 0; lane < 4; ++lane)
    EXPECT_EQ(random_bits(key, RandomStream::kDropout, 9, 20 + lane), block.words[lane]);
}

// These values define the numbers: a change of any of them changes every run of every user.
TEST(Random, TwentyValuesThatNeverChange) {
  const PhiloxKey key = random_key("layer_1/kernel", 1);
  const std::vector<uint32_t> bits = {0xf1740674, 0xd538ef33, 0x741e98be, 0x380aa724, 0xf0bd7457};
  for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(random_bits(key, initial, 0, i), bits[i]);
  const std::vector<uint32_t> later_step = {0xa4d4542c, 0x2a1e1fdb, 0xf3703215};
  for (int64_t i = 0; i < 3; ++i)
    EXPECT_EQ(random_bits(key, RandomStream::kDropout, (int64_t{1} << 40) + 3, (int64_t{1} << 35) + i),
              later_step[i]);
  const std::vector<float> uniforms = {0.9431766f, 0.83290005f, 0.45359185f, 0.21891257f};
  const std::vector<float> normals = {1.5820127f, 0.9656887f, -0.11659159f, -0.77587104f};
  const std::vector<float> truncated = {1.4256271f, 0.906835f, -0.11126416f, -0.7332528f};
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(uniform(key, initial, 0, i), uniforms[i]);
    EXPECT_EQ(normal(key, initial, 0, i), normals[i]);
    EXPECT_EQ(truncated_normal(key, initial, 0, i), truncated[i]);
  }
}

TEST(Random, StreamsStepsAndNamesDiffer) {
  std::set<uint32_t> seen;
  for (const char* name : {"a", "b"})
    for (const auto stream : {initial, RandomStream::kDropout, RandomStream::kSampling, RandomStream::kData})
      for (int64_t step = 0; step < 3; ++step)
        for (int64_t element = 0; element < 8; ++element)
          seen.insert(random_bits(random_key(name, 1), stream, step, element));
  EXPECT_EQ(seen.size(), 2u * 4 * 3 * 8);
}

TEST(Random, UniformStaysInsideTheUnitInterval) {
  EXPECT_EQ(uniform_from_bits(0), 0x1p-25);
  EXPECT_EQ(uniform_from_bits(0xffffffff), 1 - 0x1p-25);
}

TEST(Random, DropoutKeepsTheAskedShare) {
  EXPECT_EQ(keep_threshold(1), uint64_t{1} << 32);
  EXPECT_EQ(keep_threshold(0), 0u);
  EXPECT_EQ(keep_threshold(0.75), 0xc0000000u);
  const PhiloxKey key = random_key("dropout", 1);
  int kept = 0;
  for (int64_t i = 0; i < 100000; ++i)
    kept += random_bits(key, RandomStream::kDropout, 0, i) < keep_threshold(0.9);
  EXPECT_NEAR(kept, 90000, 400);
}

TEST(Random, InverseNormalCdfInvertsTheErrorFunction) {
  for (double z = -5.4; z <= 5.4; z += 0.01) {
    const double p = 0.5 * std::erfc(-z / std::sqrt(2.0));
    EXPECT_NEAR(inverse_normal_cdf(p), z, z > 2 ? 1e-9 : 1e-13);  // near p = 1 the argument itself is rounded
  }
  EXPECT_DOUBLE_EQ(inverse_normal_cdf(1e-300), -37.047096299361201);
  EXPECT_EQ(inverse_normal_cdf(0.5), 0);
}

TEST(Random, InverseGumbelCdfInvertsTheDoubleExponential) {
  for (const double p : {0x1p-25, 0.001, 0.3678, 0.5, 0.75, 0.999, 1 - 0x1p-25}) {
    const double z = inverse_gumbel_cdf(p);
    EXPECT_NEAR(std::exp(-std::exp(-z)), p, 1e-15 * (1 + std::abs(z))) << p;
  }
}

/// A long double has 64 bits of mantissa.
TEST(Random, LogarithmIsWithinAUnitInTheLastPlace) {
  const PhiloxKey key = random_key("logarithm", 1);
  for (int64_t i = 0; i < 200000; ++i) {
    const double near = 1 + std::ldexp(uniform(key, initial, 0, i) - 0.5, -static_cast<int>(i % 40));
    for (const double x : {near, std::ldexp(near, static_cast<int>(i % 2000) - 1000)}) {
      const long double exact = std::log(static_cast<long double>(x));
      const double unit = std::nextafter(std::abs(static_cast<double>(exact)), INFINITY) -
                          std::abs(static_cast<double>(exact));
      ASSERT_LE(std::abs(static_cast<long double>(sampling_log(x)) - exact), 0.9L * unit) << x;
    }
  }
  EXPECT_EQ(sampling_log(1), 0);
}

TEST(Random, MomentsOfTheDistributions) {
  const PhiloxKey key = random_key("moments", 1);
  constexpr int64_t n = 200000;
  double mean = 0, square = 0, truncated_square = 0, largest = 0, uniform_mean = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double z = normal(key, initial, 0, i, 3, 2), t = truncated_normal(key, initial, 0, i);
    mean += z / n;
    square += (z - 3) * (z - 3) / n;
    truncated_square += t * t / n;
    largest = std::max(largest, std::abs(t));
    uniform_mean += uniform(key, initial, 0, i, -1, 3) / n;
  }
  EXPECT_NEAR(mean, 3, 0.02);
  EXPECT_NEAR(square, 4, 0.05);
  EXPECT_NEAR(std::sqrt(truncated_square), 0.8796, 0.005);
  EXPECT_LE(largest, 2);
  EXPECT_GT(largest, 1.99);
  EXPECT_NEAR(uniform_mean, 1, 0.01);
}

}  // namespace
}  // namespace mtf
