#include "engine/ops/softmax.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/base/error.h"
#include "engine/graph/gradients.h"
#include "tests/support/evaluate_tensors.h"
#include "tests/support/golden.h"

namespace mtf::testing {
namespace {

TEST(Softmax, HasTheRecordedValuesAndGradients) {
  GoldenCase golden(MTF_SOURCE_DIR "/tests/golden/01_core_softmax");
  Graph graph;
  const Tensor x = golden.input(graph, "x");
  golden.expect(graph, {{"softmax", softmax(x, "v")},
                        {"softmax_extra_logit", softmax(x, "v", 0)},
                        {"log_softmax", log_softmax(x, "v")},
                        {"logsumexp", reduce_logsumexp(x, "v")},
                        {"logsumexp_extra_logit", reduce_logsumexp(x, "v", 1)}});
}

TEST(Softmax, DropsTheExtraClass) {
  Graph graph;
  const Tensor x = graph.input("x", {{"v", 2}});
  expect_close("softmax", evaluate(graph, {softmax(x, "v", 0)}, {{"x", {1, 2}}})[0], {0.244728, 0.665241},
               1e-6);
}

TEST(Softmax, NormalisesAnyDimension) {
  Graph graph;
  const Tensor x = graph.input("x", {{"v", 3}, {"b", 2}});
  const Values y = evaluate(graph, {softmax(x, "v")}, {{"x", {0, 1, 2, 3, 4, 5}}})[0];
  for (int column : {0, 1}) EXPECT_NEAR(y[column] + y[2 + column] + y[4 + column], 1, 1e-6);
  EXPECT_NEAR(y[4], 1 / (1 + std::exp(-2.) + std::exp(-4.)), 1e-6);
}

TEST(Softmax, KeepsHugeLogitsFinite) {
  Graph graph;
  const Tensor x = graph.input("x", {{"v", 3}});
  const auto y = evaluate(graph, {softmax(x, "v"), reduce_logsumexp(x, "v")}, {{"x", {1e4, 1e4, -1e9}}});
  EXPECT_EQ(y[0], (Values{0.5, 0.5, 0}));
  EXPECT_NEAR(y[1][0], 1e4 + std::log(2.), 1e-2);
}

TEST(Softmax, ShowsNaN) {
  Graph graph;
  const Tensor x = graph.input("x", {{"v", 3}});
  const Values y = evaluate(graph, {softmax(x, "v")}, {{"x", {1, std::nan(""), 2}}})[0];
  for (double p : y) EXPECT_TRUE(std::isnan(p));
}

TEST(LogSumExp, OfNothingButMinusInfinityIsMinusInfinity) {
  Graph graph;
  const Tensor x = graph.input("x", {{"v", 2}});
  EXPECT_EQ(evaluate(graph, {reduce_logsumexp(x, "v")}, {{"x", {-kInfinity, -kInfinity}}})[0],
            Values{-kInfinity});
}

TEST(LogSumExp, OfBFloat16IsFloat32) {
  Graph graph;
  const Tensor x = graph.input("x", {{"b", 3}, {"v", 2}}, DType::kBFloat16);
  const Tensor y = reduce_logsumexp(x, "b");
  EXPECT_EQ(y.dtype(), DType::kFloat32);
  expect_close("logsumexp", evaluate(graph, {y}, {{"x", {1, 2, 3, 4, 5, 6}}})[0], {5.142932, 6.142932}, 1e-6);
  EXPECT_EQ(gradients({y}, {x})[0].dtype(), DType::kBFloat16);
}

TEST(Softmax, ReportsUnknownDimensionsAndIntegers) {
  Graph graph;
  EXPECT_THROW(softmax(graph.input("x", {{"v", 2}}), "w"), Error);
  EXPECT_THROW(log_softmax(graph.input("ids", {{"v", 2}}, DType::kInt32), "v"), Error);
}

}  // namespace
}  // namespace mtf::testing
