#include "engine/ops/stochastic_cast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/base/error.h"
#include "engine/core/stochastic_rounding.h"
#include "engine/ops/cast.h"
#include "tests/support/evaluate_tensors.h"
#include "tests/support/split_kernel.h"

namespace mtf::testing {
namespace {

/// Values with all the digits of float32.
Values fractions(int64_t count) {
  Values values;
  for (int64_t i = 0; i < count; ++i) values.push_back(std::sin(static_cast<float>(i + 1)));
  return values;
}

/// The definition: each element is rounded by its own random bits.
Values rounded(const Values& x, const std::string& name, const EvaluateOptions& options, int64_t first = 0) {
  const PhiloxKey key = random_key(name, options.seed);
  Values result;
  for (size_t i = 0; i < x.size(); ++i) {
    const auto element = first + static_cast<int64_t>(i);
    const uint32_t bits =
        random_bits(key, RandomStream::kRounding, static_cast<int64_t>(options.step), element);
    result.push_back(static_cast<float>(round_stochastically(static_cast<float>(x[i]), bits)));
  }
  return result;
}

TEST(StochasticCast, RoundsByTheBitsOfEachElement) {
  const Shape shape{{"a", 3}, {"b", 1001}};
  Graph graph;
  const auto scope = graph.scope("optimizer");
  const Tensor x = graph.input("x", shape), y = stochastic_cast(x), part = stochastic_cast(x, 70);
  EXPECT_EQ(y.dtype(), DType::kBFloat16);
  const Values values = fractions(shape.size());
  const EvaluateOptions options{.seed = 5, .step = 3, .variables = {}};
  const std::vector<Values> results = evaluate(graph, {y, part}, {{"x", values}}, options);
  EXPECT_EQ(results[0], rounded(values, "optimizer/stochastic_cast", options));
  EXPECT_EQ(results[1], rounded(values, "optimizer/stochastic_cast_1", options, 70));
}

TEST(StochasticCast, NoLayoutChangesTheBits) {
  const Shape shape{{"a", 12}, {"b", 6}, {"c", 36}};
  Graph graph;
  const Tensor y = stochastic_cast(graph.input("x", shape));
  const Values values = fractions(shape.size()), expected = evaluate(graph, {y}, {{"x", values}})[0];
  const Mesh mesh(Shape::parse("x:2;y:3"));
  for (const char* rules : {"a:x", "a:y", "c:x", "c:y", "b:y;c:x", "a:x;b:y", "a:y;c:x"})
    EXPECT_EQ(evaluate_split(y.operation(), {values}, mesh, LayoutRules::parse(rules))[0], expected) << rules;
}

TEST(StochasticCast, IsUnbiased) {
  const int64_t count = 100000;
  Graph graph;
  const Tensor y = stochastic_cast(graph.input("x", {{"n", count}}));
  for (const double value : {1.0005, -0.3, 3e-6}) {
    const Values values = evaluate(graph, {y}, {{"x", Values(count, static_cast<float>(value))}})[0];
    const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(count);
    // The standard deviation of an element is at most half the distance of two neighbours.
    EXPECT_NEAR(mean, value, 5 * std::abs(value) * 0x1p-8 / std::sqrt(static_cast<double>(count)));
  }
}

/// A running mean of ones that begins at 0.5 moves by 0.001 of the difference in each step.
TEST(StochasticCast, LetsARunningMeanMoveThatRoundingToNearestHolds) {
  const int64_t count = 2000;
  Values at_random(count, 0.5), nearest(count, 0.5);
  Graph graph;
  const Tensor x = graph.input("x", {{"n", count}});
  const Tensor random = stochastic_cast(x), plain = cast(x, DType::kBFloat16);
  const auto moved = [](Values values) {
    for (double& value : values) value = static_cast<float>(0.999 * value + 0.001);
    return values;
  };
  for (uint64_t step = 0; step < 200; ++step) {
    const EvaluateOptions options{.seed = 1, .step = step, .variables = {}};
    at_random = evaluate(graph, {random}, {{"x", moved(at_random)}}, options)[0];
    nearest = evaluate(graph, {plain}, {{"x", moved(nearest)}}, options)[0];
  }
  const double mean = std::accumulate(at_random.begin(), at_random.end(), 0.0) / static_cast<double>(count);
  EXPECT_NEAR(mean, 1 - 0.5 * std::pow(0.999, 200), 0.002);
  EXPECT_EQ(nearest, Values(count, 0.5));
}

TEST(StochasticCast, RefusesOtherTypes) {
  Graph graph;
  EXPECT_THROW(stochastic_cast(graph.input("x", {{"a", 2}}, DType::kBFloat16)), Error);
  EXPECT_THROW(stochastic_cast(graph.input("i", {{"a", 2}}, DType::kInt32)), Error);
}

}  // namespace
}  // namespace mtf::testing
