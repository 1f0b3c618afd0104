// Tests one-hot vectors, ranges, look-up and top-k.
#include "engine/ops/indexing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "engine/base/error.h"
#include "engine/graph/gradients.h"
#include "engine/ops/binary.h"
#include "engine/ops/cumsum.h"
#include "engine/ops/top_k.h"
#include "engine/ops/unary.h"
#include "tests/support/evaluate_tensors.h"
#include "tests/support/golden.h"

namespace mtf::testing {
namespace {

using ::testing::ElementsAre;

const Dimension tokens{"vocab", 4};

TEST(Indexing, MatchesTheOriginal) {
  GoldenCase golden(MTF_SOURCE_DIR "/tests/golden/01_core_indexing");
  Graph graph;
  const Tensor x = golden.input(graph, "x"), logits = golden.input(graph, "logits"),
               ids = golden.input(graph, "ids");
  const Tensor table = golden.input(graph, "table"), out_of_range = golden.input(graph, "ids_out_of_range");
  const TopKResult one = top_1(logits, "vocab"), three = top_k(logits, "vocab", {"k", 3}),
                   six = top_k(logits, "vocab", {"k", 6});
  const Tensor zero = graph.constant(0, DType::kFloat32, x.shape());
  golden.expect(graph, {{"gather", gather(table, ids, "vocab")},
                        {"gather_out_of_range", gather(table, out_of_range, "vocab")},
                        {"one_hot", one_hot(ids, {"vocab", 9}, 0.9, 0.1)},
                        {"range", range(graph, {"l", 6}, DType::kFloat32)},
                        {"cumsum", cumsum(x, "l")},
                        {"cumsum_exclusive", cumsum(x, "l", {.exclusive = true})},
                        {"top1_value", one.values},
                        {"top1_index", one.indices},
                        {"top3_values", three.values},
                        {"top3_indices", three.indices},
                        {"top6_values", six.values},
                        {"top6_indices", six.indices},
                        {"argmax", argmax(logits, "vocab")},
                        {"where", where(greater(x, zero), scalar_multiply(x, 2), scalar_add(x, -1))}});
}

TEST(OneHot, OutOfRangeIdsAreOff) {
  Graph graph;
  const Tensor ids = graph.input("ids", {{"n", 3}}, DType::kInt32);
  const Tensor y = one_hot(ids, tokens, 2, -1, DType::kInt32);
  EXPECT_EQ(y.shape(), (Shape{{"n", 3}, tokens}));
  EXPECT_THAT(evaluate(graph, {y}, {{"ids", {-1, 3, 4}}})[0],
              ElementsAre(-1, -1, -1, -1, -1, -1, -1, 2, -1, -1, -1, -1));
}

TEST(OneHot, EveryElementType) {
  for (DType dtype :
       {DType::kFloat32, DType::kBFloat16, DType::kFloat64, DType::kInt32, DType::kInt64, DType::kBool}) {
    Graph graph;
    const Tensor ids = graph.input("ids", {}, DType::kInt32);
    EXPECT_THAT(evaluate(graph, {one_hot(ids, tokens, 1, 0, dtype)}, {{"ids", {2}}})[0],
                ElementsAre(0, 0, 1, 0));
  }
}

TEST(OneHot, RefusesWhatIsNotAnId) {
  Graph graph;
  EXPECT_THROW(one_hot(graph.input("x", {{"n", 3}}), tokens), Error);
  EXPECT_THROW(one_hot(graph.input("y", {tokens}, DType::kInt32), tokens), Error);
}

TEST(Range, CountsFromZero) {
  Graph graph;
  EXPECT_THAT(evaluate(graph, {range(graph, tokens)}, {})[0], ElementsAre(0, 1, 2, 3));
}

TEST(Gather, RecordedValues) {
  Graph graph;
  const Tensor table = graph.input("table", {{"vocab", 3}});
  const Tensor ids = graph.input("ids", {{"n", 4}}, DType::kInt32);
  const auto values = evaluate(graph, {gather(table, ids, "vocab"), gather(table, 1, "vocab")},
                               {{"table", {10, 20, 30}}, {"ids", {-1, 0, 2, 3}}});
  EXPECT_THAT(values[0], ElementsAre(0, 10, 30, 0));
  EXPECT_THAT(values[1], ElementsAre(20));
}

TEST(Gather, MatchesDimensionsThatTableAndIdsShare) {
  Graph graph;
  const Tensor table = graph.input("table", {{"batch", 2}, {"n", 3}});
  const Tensor ids = graph.input("ids", {{"k", 2}, {"batch", 2}}, DType::kInt32);
  const Tensor y = gather(table, ids, "n");
  EXPECT_EQ(y.shape(), ids.shape());
  EXPECT_THAT(evaluate(graph, {y}, {{"table", {1, 2, 3, 4, 5, 6}}, {"ids", {0, 2, 1, 1}}})[0],
              ElementsAre(1, 6, 2, 5));
}

TEST(Gather, FlagsAreLookedUpToo) {
  Graph graph;
  const Tensor table = graph.input("table", {tokens}, DType::kBool);
  const Tensor y = gather(table, graph.input("ids", {{"n", 3}}, DType::kInt32), tokens);
  EXPECT_EQ(y.dtype(), DType::kBool);
  EXPECT_THAT(evaluate(graph, {y}, {{"table", {0, 1, 0, 1}}, {"ids", {3, 9, 0}}})[0], ElementsAre(1, 0, 0));
}

TEST(Gather, RefusesWhatDoesNotFit) {
  Graph graph;
  const Tensor table = graph.input("table", {tokens, {"d", 2}}),
               ids = graph.input("ids", {{"n", 3}}, DType::kInt32);
  EXPECT_THROW(gather(table, ids, "words"), Error);
  EXPECT_THROW(gather(table, table, "vocab"), Error);
  EXPECT_THROW(gather(table, graph.input("own", {tokens}, DType::kInt32), "vocab"), Error);
  EXPECT_THROW(gather(table, ids, "vocab", {{"n", 3}}), Error);
  EXPECT_THROW(gather(table, ids, "vocab", {{"n", 3}, {"d", 2}, {"e", 2}}), Error);
}

TEST(Gather, ASplitTableLeavesAPartialSum) {
  Graph graph;
  const Tensor y =
      gather(graph.input("table", {tokens, {"d", 4}}), graph.input("ids", {{"n", 4}}, DType::kInt32), tokens);
  const Tensor dy = graph.input("dy", y.shape());
  const Operation& gradient = gradients({y}, {y.operation().input(0)}, {dy})[0].operation();
  const Mesh mesh(Shape::parse("rows:2;cols:2"));
  const LayoutMap rules(mesh, LayoutRules::parse("vocab:rows;n:cols"));
  const auto place = [&](const Operation& operation) {
    return operation.sharding_rule(
        {rules, {rules.of(operation.input(0).shape()), rules.of(operation.input(1).shape())}});
  };
  EXPECT_EQ(place(y.operation()).outputs[0], (Layout{{{1}, {}}, axis_bit(0)}));
  EXPECT_EQ(place(gradient).outputs[0], (Layout{{{0}, {}}, axis_bit(1)}));
}

// The expected sums are computed in float, in the order of the ids.
TEST(GatherGradient, AddsRowsInTheOrderOfTheIds) {
  const int64_t rows = 1000, columns = 70, places = 3000;
  std::mt19937 generator(7);
  std::normal_distribution<float> normal;
  Values ids(places), dys(places * columns), expected(rows * columns);
  for (double& id : ids) id = std::floor(std::exp(std::uniform_real_distribution<>(0, 7)(generator))) - 2;
  for (double& v : dys) v = normal(generator);
  for (int64_t i = 0; i < places; ++i) {
    for (int64_t c = 0; c < columns && ids[i] >= 0 && ids[i] < rows; ++c) {
      double& sum = expected[static_cast<int64_t>(ids[i]) * columns + c];
      sum = static_cast<float>(sum) + static_cast<float>(dys[i * columns + c]);
    }
  }
  Graph graph;
  const Tensor table = graph.input("table", {{"vocab", rows}, {"d", columns}});
  const Tensor y = gather(table, graph.input("ids", {{"n", places}}, DType::kInt32), "vocab");
  const Tensor dtable = gradients({y}, {table}, {graph.input("dy", y.shape())})[0];
  EXPECT_EQ(evaluate(graph, {dtable}, {{"table", Values(rows * columns)}, {"ids", ids}, {"dy", dys}})[0],
            expected);
}

TEST(GatherGradient, BFloat16IsSummedInFloat32) {
  Graph graph;
  const Tensor table = graph.input("table", {tokens}, DType::kBFloat16);
  const Tensor y = gather(table, graph.input("ids", {{"n", 1000}}, DType::kInt32), tokens);
  const Tensor dtable = gradients({y}, {table})[0];
  EXPECT_THAT(evaluate(graph, {dtable}, {{"table", Values(4)}, {"ids", Values(1000, 2)}})[0],
              ElementsAre(0, 0, 1000, 0));
}

TEST(TopK, RecordedValues) {
  Graph graph;
  const TopKResult top = top_k(graph.input("x", {{"n", 6}}), "n", {"k", 5});
  const auto values = evaluate(graph, {top.values, top.indices}, {{"x", {5, 7, 7, 1, 9, 2}}});
  EXPECT_THAT(values[0], ElementsAre(9, 7, 7, 5, 2));
  EXPECT_THAT(values[1], ElementsAre(4, 1, 2, 0, 5));
}

TEST(TopK, EveryKAgreesWithAStableSort) {
  std::mt19937 generator(3);
  for (const auto& [n, largest_first] : {std::pair<int64_t, bool>{1, false},
                                         {7, false},
                                         {32, false},
                                         {64, false},
                                         {64, true},
                                         {100, false},
                                         {100, true},
                                         {333, false},
                                         {333, true},
                                         {4000, false},
                                         {4037, true}}) {
    Values x(n);
    const uint32_t different = n > 1000 ? 250 : 50;  // whole numbers that bfloat16 has
    for (double& v : x) v = static_cast<double>(generator() % different) - 25;
    if (largest_first) x[0] = 230;
    Values order(n);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](double a, double b) { return x[(int)a] > x[(int)b]; });
    for (int64_t k : {int64_t{1}, int64_t{2}, int64_t{8}, int64_t{20}, int64_t{32}, int64_t{40}, int64_t{136},
                      int64_t{700}, n / 2, n}) {
      if (k < 1 || k > n) continue;
      for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64, DType::kInt32}) {
        Graph graph;
        const Tensor indices = top_k(graph.input("x", {{"n", n}}, dtype), "n", {"k", k}).indices;
        EXPECT_EQ(evaluate(graph, {indices}, {{"x", x}})[0], Values(order.begin(), order.begin() + k))
            << n << " " << k;
      }
    }
  }
}

TEST(TopK, AnyDimensionOfATensor) {
  Graph graph;
  const TopKResult top = top_k(graph.input("x", {{"n", 3}, {"b", 2}}), "n", {"k", 2});
  EXPECT_EQ(top.values.shape(), (Shape{{"b", 2}, {"k", 2}}));
  const auto values = evaluate(graph, {top.values, top.indices}, {{"x", {1, 6, 3, 5, 2, 4}}});
  EXPECT_THAT(values[0], ElementsAre(3, 2, 6, 5));
  EXPECT_THAT(values[1], ElementsAre(1, 2, 0, 1));
}

TEST(TopK, NaNComesFirstAndInfinityIsAValue) {
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  Values x(80, -inf);
  x[70] = nan;
  x[3] = inf;
  x[75] = nan;
  for (int64_t k : {1, 4, 40}) {
    Graph graph;
    const Tensor indices = top_k(graph.input("x", {{"n", 80}}), "n", {"k", k}).indices;
    const Values values = evaluate(graph, {indices}, {{"x", x}})[0];
    EXPECT_EQ(values[0], 70) << k;
    if (k == 1) continue;
    EXPECT_THAT(Values(values.begin(), values.begin() + 4), ElementsAre(70, 75, 3, 0));
  }
}

/// Whether they are among the entries that are looked at first or not.
TEST(TopK, NaNComesFirstAmongMany) {
  for (const size_t place : {0, 500, 999}) {
    Values x(1000);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i * i % 777);
    x[place] = std::nan("");
    Graph graph;
    const Tensor indices = top_k(graph.input("x", {{"n", 1000}}), "n", {"k", 40}).indices;
    const Values values = evaluate(graph, {indices}, {{"x", x}})[0];
    EXPECT_EQ(values[0], static_cast<double>(place));
    EXPECT_EQ(std::ranges::count(values, values[0]), 1);
  }
}

TEST(TopK, AllMinusInfinityIsTheFirstEntry) {
  Graph graph;
  const Values x(50, -std::numeric_limits<double>::infinity());
  EXPECT_THAT(evaluate(graph, {argmax(graph.input("x", {{"n", 50}}), "n")}, {{"x", x}})[0], ElementsAre(0));
}

TEST(TopK, TheGradientGoesBackToThePlacesOfTheValues) {
  Graph graph;
  const Tensor x = graph.input("x", {{"n", 4}});
  const Tensor values = top_k(x, "n", {"k", 2}).values;
  const Tensor dx = gradients({values}, {x}, {graph.input("dy", {{"k", 2}})})[0];
  EXPECT_THAT(evaluate(graph, {dx}, {{"x", {1, 4, 2, 3}}, {"dy", {10, 20}}})[0], ElementsAre(0, 10, 0, 20));
}

TEST(TopK, RefusesWhatDoesNotFit) {
  Graph graph;
  const Tensor x = graph.input("x", {{"n", 4}, {"k", 2}});
  EXPECT_THROW(top_k(x, "n", {"best", 5}), Error);
  EXPECT_THROW(top_k(x, "m", {"best", 1}), Error);
  EXPECT_THROW(top_k(x, "n", {"k", 2}), Error);
  EXPECT_THROW(nth_largest_element(x, 4, "n"), Error);
  EXPECT_THROW(nth_largest_element(x, -1, "n"), Error);
  EXPECT_THAT(top_k(x, "n", {"best", 2}).values.operation().unsplittable(), ElementsAre("best"));
}

TEST(NthElement, RanksCountFromZero) {
  Graph graph;
  const Tensor x = graph.input("x", {{"n", 4}});
  const auto values = evaluate(graph,
                               {nth_largest_element(x, 0, "n"), nth_largest_element(x, 2, "n"),
                                nth_smallest_element(x, 0, "n"), nth_smallest_element(x, 1, "n")},
                               {{"x", {1, 4, 2, 3}}});
  EXPECT_EQ(values, (std::vector<Values>{{4}, {2}, {1}, {2}}));
}

}  // namespace
}  // namespace mtf::testing
