#include "layers/rotary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/ops/indexing.h"
#include "tests/support/evaluate_tensors.h"

namespace mtf::testing {
namespace {

constexpr int64_t kHalf = 8;
constexpr double kBase = 500;

/// Expects that position p turns pair i by p * frequency(i).
template <class Frequency>
void expect_angles(const RotaryOptions& options, const Frequency& frequency) {
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
      EXPECT_NEAR(y[at], std::cos(angle), 1e-5) << p << ", " << i;
      EXPECT_NEAR(y[at + kHalf], std::sin(angle), 1e-5) << p << ", " << i;
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

}  // namespace
}  // namespace mtf::testing
