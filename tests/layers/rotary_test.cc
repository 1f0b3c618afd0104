#include "layers/rotary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "engine/base/error.h"
#include "engine/ops/indexing.h"
#include "tests/support/evaluate_tensors.h"

namespace mtf::testing {
namespace {

constexpr int64_t kHalf = 8;
constexpr double kBase = 500;

/// Expects that position p turns pair i by p * frequency(base^(-i / half)), and makes it longer by `magnitude`.
template <class Frequency>
void expect_angles(const RotaryOptions& options, const Frequency& frequency, double magnitude = 1) {
  Graph graph;
  constexpr int64_t positions = 40;
  const Dimension length{"length", positions}, entries{"d_kv", 2 * kHalf};
  const Tensor x = graph.input("x", Shape{length, entries});
  Values ones(static_cast<size_t>(positions * 2 * kHalf));  // (1, 0) for each pair
  for (size_t i = 0; i < ones.size(); ++i) ones[i] = i % (2 * kHalf) < kHalf ? 1 : 0;
  const Values y = evaluate(graph, {rotate(x, range(graph, length), options)}, {{"x", ones}})[0];
  for (int64_t p = 0; p < positions; ++p) {
    for (int64_t i = 0; i < kHalf; ++i) {
      const double angle =
          static_cast<double>(p) * frequency(std::pow(kBase, -static_cast<double>(i) / kHalf));
      const auto at = static_cast<size_t>(p * 2 * kHalf + i);
      EXPECT_NEAR(y[at], magnitude * std::cos(angle), 1e-5) << p << ", " << i;
      EXPECT_NEAR(y[at + kHalf], magnitude * std::sin(angle), 1e-5) << p << ", " << i;
    }
  }
}

TEST(Rotary, TurnsPairsByTheirFrequencies) {
  expect_angles({.rotary = true, .rotary_base = kBase}, [](double frequency) { return frequency; });
}

TEST(Rotary, LinearScalingDividesAllAngles) {
  LinearRotaryScaling scaling;
  scaling.factor = 2.5;
  expect_angles({.rotary = true, .rotary_base = kBase, .rotary_scaling = scaling},
                [](double frequency) { return frequency / 2.5; });
}

TEST(Rotary, TheScalingOfLlama3LeavesFastAnglesAsTheyAre) {
  Llama3RotaryScaling scaling;
  scaling.factor = 4;
  scaling.low_frequency = 1;
  scaling.high_frequency = 3;
  scaling.original_length = 64;
  int fast = 0, slow = 0;
  expect_angles({.rotary = true, .rotary_base = kBase, .rotary_scaling = scaling}, [&](double frequency) {
    const double turns = 64 * frequency / (2 * std::numbers::pi);
    const double share = std::clamp((turns - 1) / 2, 0.0, 1.0);
    fast += share == 1 ? 1 : 0;
    slow += share == 0 ? 1 : 0;
    return share * frequency + (1 - share) * frequency / 4;
  });
  EXPECT_GT(fast, 0);
  EXPECT_GT(slow, 0);
}

TEST(Rotary, YarnSlowsDownPairsByTheirNumber) {
  YarnRotaryScaling scaling;
  scaling.factor = 4;
  scaling.original_length = 64;
  scaling.beta_fast = 4;
  scaling.beta_slow = 0.5;
  for (const bool truncate : {true, false}) {
    scaling.truncate = truncate;
    const auto pair_of = [](double turns) {
      return kHalf * std::log(64 / (2 * std::numbers::pi * turns)) / std::log(kBase);
    };
    const double first = truncate ? std::floor(pair_of(4)) : pair_of(4),
                 last = truncate ? std::ceil(pair_of(0.5)) : pair_of(0.5);
    EXPECT_GT(first, 0);
    EXPECT_LT(last, kHalf - 1);
    for (const std::optional<double> factor : {std::optional<double>(), std::optional(0.75)}) {
      scaling.attention_factor = factor;
      expect_angles(
          {.rotary = true, .rotary_base = kBase, .rotary_scaling = scaling},
          [&](double frequency) {
            const double pair = -std::log(frequency) / std::log(kBase) * kHalf;
            const double slow = std::clamp((pair - first) / (last - first), 0.0, 1.0);
            return (1 - slow) * frequency + slow * frequency / 4;
          },
          factor.value_or(0.1 * std::log(4) + 1));
    }
  }
}

TEST(Rotary, LongropeDividesTheAngleOfEachPair) {
  LongRotaryScaling scaling;
  scaling.factor = 8;
  scaling.original_length = 64;
  for (int64_t i = 0; i < kHalf; ++i) {
    scaling.short_factor.push_back(1 + 0.25 * static_cast<double>(i));
    scaling.long_factor.push_back(2 + static_cast<double>(i));
  }
  const double magnitude = std::sqrt(1 + std::log(8) / std::log(64));
  for (const bool is_long : {false, true}) {
    scaling.is_long = is_long;
    const auto divided = [&](double frequency) {
      const auto pair = static_cast<size_t>(std::lround(-std::log(frequency) / std::log(kBase) * kHalf));
      return frequency / (is_long ? scaling.long_factor : scaling.short_factor)[pair];
    };
    scaling.attention_factor.reset();
    expect_angles({.rotary = true, .rotary_base = kBase, .rotary_scaling = scaling}, divided, magnitude);
    scaling.attention_factor = 0.75;
    expect_angles({.rotary = true, .rotary_base = kBase, .rotary_scaling = scaling}, divided, 0.75);
  }
  scaling.attention_factor.reset();
  scaling.factor = 1;
  EXPECT_EQ(scaling.magnitude(), 1);
}

TEST(Rotary, LongropeForShortRowsRefusesLongOnes) {
  LongRotaryScaling scaling;
  scaling.original_length = 64;
  RotaryOptions options{.rotary = true, .rotary_base = kBase, .rotary_scaling = scaling};
  EXPECT_NO_THROW(check_rotary_row(options, 64, "attention"));
  EXPECT_THROW(check_rotary_row(options, 65, "attention"), Error);
  scaling.is_long = true;
  options.rotary_scaling = scaling;
  EXPECT_NO_THROW(check_rotary_row(options, 65, "attention"));
}

TEST(Rotary, EntriesBehindThoseThatAreTurnedStay) {
  Graph graph;
  const Dimension length{"length", 5}, turned{"d_kv", 6}, all{"d_kv", 11};
  const RotaryOptions part{.rotary = true, .rotary_base = kBase, .rotary_size = 6};
  const Tensor x = graph.input("x", Shape{length, all});
  const Tensor first = graph.input("first", Shape{length, turned});
  const Tensor position = range(graph, length);
  Values values(5 * 11), firsts(5 * 6);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = 0.1F * static_cast<float>(i) - 2;
    if (i % 11 < 6) firsts[i / 11 * 6 + i % 11] = values[i];
  }
  const auto y = evaluate(graph, {rotate(x, position, part), rotate(first, position, {.rotary_base = kBase})},
                          {{"x", values}, {"first", firsts}});
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(y[0][i], i % 11 < 6 ? y[1][i / 11 * 6 + i % 11] : values[i]) << i;
}

}  // namespace
}  // namespace mtf::testing
