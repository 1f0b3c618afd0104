// Tests random tensors and dropout: their statistics, and that numbers depend only on name, seed, step and
// element.
#include "engine/core/random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/backend/cpu/elementwise/noise_pieces.h"
#include "engine/base/error.h"
#include "engine/graph/gradients.h"
#include "engine/graph/structural.h"
#include "engine/ops/random.h"
#include "tests/support/evaluate_tensors.h"
#include "tests/support/split_kernel.h"

namespace mtf::testing {
namespace {

const Dimension batch{"batch", 8}, length{"length", 6}, d{"d", 20};
const Shape shape{batch, length, d};

double mean(const Values& x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}

double variance(const Values& x) {
  const double m = mean(x);
  double sum = 0;
  for (double v : x) sum += (v - m) * (v - m);
  return sum / static_cast<double>(x.size());
}

/// Returns 1 for each element that is kept by the definition, otherwise 0.
Values mask(const std::string& name, const EvaluateOptions& options, double rate, int64_t n) {
  const PhiloxKey key = random_key(name, options.seed);
  Values keep;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t step = static_cast<int64_t>(options.step);
    keep.push_back(random_bits(key, RandomStream::kDropout, step, i) < keep_threshold(1 - rate));
  }
  return keep;
}

TEST(Random, BlocksOfKernelsHaveTheBitsOfTheirElements) {
  const PhiloxKey key = random_key("dropout", 1);
  uint32_t bits[128];
  const uint64_t block = (uint64_t{1} << 32) - 3;  // carries into the next counter word
  fill_blocks(bits, RandomStream::kDropout, 9, key, block, 32);
  for (int64_t i = 0; i < 128; ++i)
    EXPECT_EQ(bits[i], random_bits(key, RandomStream::kDropout, 9, static_cast<int64_t>(4 * block) + i));
}

TEST(Dropout, KeepsByTheBitsOfEachElementAndScales) {
  Graph graph;
  const auto scope = graph.scope("block");
  const Tensor y = dropout(graph.input("x", shape), 0.25);
  const EvaluateOptions options{.seed = 5, .step = 3, .variables = {}};
  Values expected = mask("block/dropout", options, 0.25, shape.size());
  for (double& v : expected) v *= 1.5f * (1 / 0.75f);
  EXPECT_EQ(evaluate(graph, {y}, {{"x", Values(shape.size(), 1.5)}}, options)[0], expected);
}

TEST(Dropout, EveryElementTypeTakesTheSameMask) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64, DType::kInt32}) {
    Graph graph;
    const Tensor y = dropout(graph.input("x", shape, dtype), 0.5);
    Values expected = mask("dropout", {}, 0.5, shape.size());
    for (double& v : expected) v *= dtype == DType::kInt32 ? 3 : 6;
    EXPECT_EQ(evaluate(graph, {y}, {{"x", Values(shape.size(), 3)}})[0], expected) << name_of(dtype);
  }
}

TEST(Dropout, DimensionsOutsideTheNoiseShapeShareTheMask) {
  Graph graph;
  const Tensor y = dropout(graph.input("x", shape), 0.5, {batch, d});
  const Values values = evaluate(graph, {y}, {{"x", Values(shape.size(), 1)}})[0];
  const Values keep = mask("dropout", {}, 0.5, batch.size * d.size);
  for (int64_t i = 0; i < shape.size(); ++i) {
    const int64_t example = i / (length.size * d.size), column = i % d.size;
    ASSERT_EQ(values[i], 2 * keep[example * d.size + column]) << i;
  }
}

TEST(Dropout, TheDeclaredOrderOfTheNoiseShapeCounts) {
  Graph graph;
  const Tensor y = dropout(graph.input("x", shape), 0.5, {d, batch});
  const Values values = evaluate(graph, {y}, {{"x", Values(shape.size(), 1)}})[0];
  const Values keep = mask("dropout", {}, 0.5, batch.size * d.size);
  for (int64_t i = 0; i < shape.size(); ++i) {
    ASSERT_EQ(values[i], 2 * keep[i % d.size * batch.size + i / (length.size * d.size)]) << i;
  }
}

TEST(Dropout, TheGradientHasTheSameMask) {
  Graph graph;
  const Tensor x = graph.input("x", shape);
  const Tensor y = dropout(x, 0.3), dx = gradients({y}, {x})[0];
  const auto values = evaluate(graph, {y, dx}, {{"x", Values(shape.size(), 1)}});
  EXPECT_EQ(values[0], values[1]);
}

TEST(Dropout, RecomputationRepeatsTheMask) {
  Graph graph;
  const Tensor x = graph.input("x", shape);
  const Tensor y = recompute([](const Tensors& xs) { return Tensors{dropout(xs[0], 0.3)}; }, {x})[0];
  const auto values = evaluate(graph, {y, gradients({y}, {x})[0]}, {{"x", Values(shape.size(), 1)}});
  EXPECT_EQ(values[0], values[1]);
}

TEST(Dropout, MasksDifferByNameSeedAndStep) {
  Graph graph;
  const Tensor x = graph.input("x", shape);
  const Tensor first = dropout(x, 0.5), second = dropout(x, 0.5);
  const std::map<std::string, Values> feeds{{"x", Values(shape.size(), 1)}};
  const auto values = evaluate(graph, {first, second}, feeds);
  EXPECT_NE(values[0], values[1]);
  EXPECT_NE(values[0], evaluate(graph, {first}, feeds, {.seed = 2, .step = 0, .variables = {}})[0]);
  EXPECT_NE(values[0], evaluate(graph, {first}, feeds, {.seed = 1, .step = 1, .variables = {}})[0]);
  EXPECT_EQ(values[0], evaluate(graph, {first}, feeds)[0]);
}

TEST(Dropout, NoLayoutChangesTheMask) {
  const Values ones(shape.size(), 1);
  for (const Shape& noise : {shape, Shape{batch, d}, Shape{length, batch}, Shape{}}) {
    Graph graph;
    const Tensor y = dropout(graph.input("x", shape), 0.4, noise);
    const Values expected = evaluate(graph, {y}, {{"x", ones}})[0];
    for (const char* rules :
         {"batch:rows", "batch:cols;length:rows", "d:rows;batch:cols", "d:cols", "length:rows;d:cols"}) {
      const Mesh mesh(Shape::parse("rows:2;cols:4"));
      EXPECT_EQ(evaluate_split(y.operation(), {ones}, mesh, LayoutRules::parse(rules))[0], expected) << rules;
    }
  }
}

TEST(Dropout, RunsThatStartBetweenBlocksOfFour) {
  const Shape odd{{"a", 3}, {"n", 9}};
  Graph graph;
  const Tensor y = dropout(graph.input("x", odd), 0.5);
  const Values ones(odd.size(), 1);
  const Values expected = evaluate(graph, {y}, {{"x", ones}})[0];
  const Mesh mesh(Shape::parse("m:3"));
  EXPECT_EQ(evaluate_split(y.operation(), {ones}, mesh, LayoutRules::parse("n:m"))[0], expected);
  EXPECT_EQ(evaluate_split(y.operation(), {ones}, mesh, LayoutRules::parse("a:m"))[0], expected);
}

TEST(Dropout, MicrobatchesTakeTheMaskOfTheFullBatch) {
  const Values ones(shape.size(), 1);
  Graph whole;
  const Values expected = evaluate(whole, {dropout(whole.input("x", shape), 0.5)}, {{"x", ones}})[0];
  for (int64_t count : {1, 2, 4}) {
    Graph graph;
    const Tensor x = graph.input("x", shape);
    const Microbatching microbatching{"batch", count};
    const Tensor y = repeat(graph, count, {}, microbatching, [&](const Tensors&) {
      return LoopResult{{}, {}, {dropout(microbatch_slice(x), 0.5)}};
    })[0];
    EXPECT_EQ(evaluate(graph, {y}, {{"x", ones}})[0], expected) << count;
  }
}

TEST(Dropout, ALargeTensorKeepsItsShareAndMean) {
  Graph graph;
  const Shape large{{"a", 300}, {"n", 1001}};
  const Values values =
      evaluate(graph, {dropout(graph.input("x", large), 0.1)}, {{"x", Values(large.size(), 1)}})[0];
  const double dropped = static_cast<double>(std::count(values.begin(), values.end(), 0.0)) / 300300;
  EXPECT_NEAR(dropped, 0.1, 4 * std::sqrt(0.09 / 300300));
  EXPECT_NEAR(mean(values), 1, 0.005);
}

TEST(Dropout, RefusesBadRatesAndNoiseShapes) {
  Graph graph;
  const Tensor x = graph.input("x", shape);
  EXPECT_EQ(dropout(x, 0), x);
  for (double rate : {-0.1, 1.0, 1.5, std::nan("")}) EXPECT_THROW(dropout(x, rate), Error) << rate;
  EXPECT_THROW(dropout(x, 0.5, {{"heads", 2}}), Error);
  EXPECT_THROW(dropout(x, 0.5, {{"batch", 4}}), Error);
}

TEST(Random, UniformNormalAndGumbelHaveTheirMoments) {
  Graph graph;
  const Shape large{{"n", 200000}};
  const auto values = evaluate(
      graph,
      {random_uniform(graph, large, -1, 3), random_normal(graph, large, 2, 3), random_gumbel(graph, large)},
      {});
  EXPECT_NEAR(mean(values[0]), 1, 0.02);
  EXPECT_NEAR(variance(values[0]), 16.0 / 12, 0.02);
  EXPECT_GE(*std::min_element(values[0].begin(), values[0].end()), -1);
  EXPECT_LE(*std::max_element(values[0].begin(), values[0].end()), 3);
  EXPECT_NEAR(mean(values[1]), 2, 0.03);
  EXPECT_NEAR(variance(values[1]), 9, 0.15);
  EXPECT_NEAR(mean(values[2]), 0.5772, 0.015);
  EXPECT_NEAR(variance(values[2]), M_PI * M_PI / 6, 0.03);
}

TEST(Random, NumbersAreThoseOfEachElement) {
  Graph graph;
  const Tensor u = random_uniform(graph, shape, -1, 1), z = random_normal(graph, shape);
  const auto values = evaluate(graph, {u, z}, {});
  for (int64_t i = 0; i < shape.size(); ++i) {
    EXPECT_EQ(values[0][i], uniform(random_key("random_uniform", 1), RandomStream::kSampling, 0, i, -1, 1));
    EXPECT_EQ(values[1][i], normal(random_key("random_normal", 1), RandomStream::kSampling, 0, i));
  }
}

TEST(Random, NoLayoutChangesTheNumbers) {
  Graph graph;
  const Mesh mesh(Shape::parse("rows:2;cols:4"));
  for (const Tensor& y :
       {random_uniform(graph, shape), random_normal(graph, shape), random_gumbel(graph, shape)}) {
    const Values expected = evaluate(graph, {y}, {})[0];
    for (const char* rules : {"batch:cols", "d:cols;length:rows", "batch:rows;d:cols"}) {
      EXPECT_EQ(evaluate_split(y.operation(), {}, mesh, LayoutRules::parse(rules))[0], expected) << rules;
    }
  }
}

TEST(Random, RefusesIntegers) {
  Graph graph;
  EXPECT_THROW(random_uniform(graph, shape, 0, 1, DType::kInt32), Error);
}

TEST(SampleWithTemperature, DrawsFromTheSoftmax) {
  Graph graph;
  const int64_t draws = 40000;
  const Tensor logits = graph.input("logits", {{"n", draws}, {"vocab", 3}});
  Values rows;
  for (int64_t i = 0; i < draws; ++i) {
    for (double p : {0.1, 0.3, 0.6}) rows.push_back(2 * std::log(p));
  }
  const auto values = evaluate(
      graph, {sample_with_temperature(logits, "vocab", 2), sample_with_temperature(logits, "vocab", 0)},
      {{"logits", rows}});
  const auto share = [&](const Values& ids, double id) {
    return static_cast<double>(std::count(ids.begin(), ids.end(), id)) / static_cast<double>(draws);
  };
  EXPECT_NEAR(share(values[0], 0), 0.1, 0.006);
  EXPECT_NEAR(share(values[0], 1), 0.3, 0.01);
  EXPECT_NEAR(share(values[0], 2), 0.6, 0.01);
  EXPECT_EQ(share(values[1], 2), 1);
  EXPECT_THROW(sample_with_temperature(logits, "vocab", -1), Error);
}

}  // namespace
}  // namespace mtf::testing
