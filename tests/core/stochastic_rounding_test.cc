#include "engine/core/stochastic_rounding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace mtf::testing {
namespace {

constexpr float kInfinite = std::numeric_limits<float>::infinity();

/// The mean over all random bits.
double mean(float value) {
  double sum = 0;
  for (uint32_t bits = 0; bits < 0x10000; ++bits)
    sum += static_cast<float>(round_stochastically(value, bits));
  return sum / 0x10000;
}

TEST(StochasticRounding, HasTheNumberAsItsMean) {
  for (const float value : {1.001f, -3.14159f, 0.1f, 7.0e-5f, 1e30f, -1e-41f, 1 + 0x1p-23f, 2 - 0x1p-23f})
    EXPECT_EQ(mean(value), value);
}

TEST(StochasticRounding, GoesToOneOfTheTwoNeighbours) {
  const float below = 1.5f, above = 1.5f + 0x1p-7f, value = below + 0x1p-9f;  // a quarter of the distance
  int up = 0;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float rounded(round_stochastically(value, bits));
    ASSERT_TRUE(rounded == below || rounded == above) << rounded;
    up += rounded == above;
  }
  EXPECT_EQ(up, 0x4000);
}

TEST(StochasticRounding, KeepsWhatBFloat16Has) {
  for (const float value : {0.0f, 1.0f, -1.5f, 0x1p-133f, 0x1.fep127f, kInfinite, -kInfinite}) {
    for (const uint32_t bits : {0u, 1u, 0xffffu, 0xffffffffu})
      EXPECT_EQ(static_cast<float>(round_stochastically(value, bits)), value);
  }
  EXPECT_TRUE(std::signbit(static_cast<float>(round_stochastically(-0.0f, 0xffff))));
  for (const uint32_t word : {0x7f800001u, 0x7fffffffu, 0xffffffffu}) {
    const float value = std::bit_cast<float>(word);
    EXPECT_TRUE(std::isnan(static_cast<float>(round_stochastically(value, 0xffff)))) << word;
  }
}

}  // namespace
}  // namespace mtf::testing
