// Tests shifts, halo exchange and cumulative sums.
#include "engine/ops/shift.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/ops/cumsum.h"
#include "engine/ops/halo.h"
#include "tests/support/evaluate_tensors.h"
#include "tests/support/golden.h"

namespace mtf::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

/// Computes y[i] = x[i - offset] for one dimension, by the definition.
Values shifted(const Values& x, int64_t offset, bool wrap) {
  const int64_t n = static_cast<int64_t>(x.size());
  Values y(x.size(), 0);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t from = wrap ? ((i - offset) % n + n) % n : i - offset;
    if (from >= 0 && from < n) y[i] = x[from];
  }
  return y;
}

TEST(Shift, EveryOffset) {
  const Values x = count_from(1, 8);
  for (int64_t offset = -19; offset <= 19; ++offset) {
    for (bool wrap : {false, true}) {
      Graph graph;
      const Tensor y = shift(graph.input("x", {{"n", 8}}), offset, "n", wrap);
      EXPECT_EQ(evaluate(graph, {y}, {{"x", x}})[0], shifted(x, offset, wrap)) << offset << " wrap " << wrap;
    }
  }
}

TEST(Shift, RecordedValues) {
  Graph graph;
  const Tensor x = graph.input("x", {{"n", 8}});
  const auto values =
      evaluate(graph, {shift(x, 3, "n", false), shift(x, -3, "n", true)}, {{"x", count_from(0, 8)}});
  EXPECT_THAT(values[0], ElementsAre(0, 0, 0, 0, 1, 2, 3, 4));
  EXPECT_THAT(values[1], ElementsAre(3, 4, 5, 6, 7, 0, 1, 2));
}

TEST(Shift, MovesWholeRunsOfInnerDimensions) {
  Graph graph;
  const Tensor y = shift(graph.input("x", {{"a", 2}, {"n", 2}, {"d", 2}}), 1, "n", false);
  EXPECT_THAT(evaluate(graph, {y}, {{"x", count_from(1, 8)}})[0], ElementsAre(0, 0, 1, 2, 0, 0, 5, 6));
}

TEST(Shift, TellsThePartitionerWhatToExchange) {
  Graph graph;
  const Tensor y = shift(graph.input("x", {{"n", 8}}), -2, "n", true);
  const auto& operation = dynamic_cast<const Shift&>(y.operation());
  EXPECT_EQ(operation.dimension, "n");
  EXPECT_EQ(operation.offset, -2);
  EXPECT_TRUE(operation.wrap);
}

TEST(DynamicShift, EachRowByItsOwnOffset) {
  const Values x = count_from(1, 8), offsets{0, 3, -2, 11, -9};
  for (bool wrap : {false, true}) {
    Graph graph;
    const Tensor y = dynamic_shift(graph.input("x", {{"row", 5}, {"n", 8}}),
                                   graph.input("offset", {{"row", 5}}, DType::kInt32), "n", wrap);
    Values all, expected;
    for (double offset : offsets) {
      all.insert(all.end(), x.begin(), x.end());
      const Values row = shifted(x, static_cast<int64_t>(offset), wrap);
      expected.insert(expected.end(), row.begin(), row.end());
    }
    EXPECT_EQ(evaluate(graph, {y}, {{"x", all}, {"offset", offsets}})[0], expected);
  }
}

TEST(DynamicShift, AgreesWithShiftWhateverTheOrderOfDimensions) {
  for (const Shape& shape :
       {Shape{{"a", 2}, {"n", 6}, {"b", 3}, {"c", 2}}, Shape{{"n", 6}, {"a", 2}, {"b", 3}, {"c", 2}},
        Shape{{"b", 3}, {"c", 2}, {"a", 2}, {"n", 6}}}) {
    for (const Shape& offsets : {Shape{}, Shape{{"c", 2}}, Shape{{"b", 3}, {"a", 2}}}) {
      Graph graph;
      const Tensor x = graph.input("x", shape);
      const Tensor y = dynamic_shift(x, graph.constant(-4, DType::kInt32, offsets), "n", true);
      const auto values = evaluate(graph, {y, shift(x, -4, "n", true)}, {{"x", count_from(0, shape.size())}});
      EXPECT_EQ(values[0], values[1]) << shape.to_string() << " " << offsets.to_string();
    }
  }
}

TEST(DynamicShift, RefusesOffsetsThatDoNotFit) {
  Graph graph;
  const Tensor x = graph.input("x", {{"a", 2}, {"n", 4}});
  EXPECT_THROW(dynamic_shift(x, graph.input("i", {{"b", 2}}, DType::kInt32), "n", true), Error);
  EXPECT_THROW(dynamic_shift(x, graph.input("j", {{"n", 4}}, DType::kInt32), "n", true), Error);
  EXPECT_THROW(dynamic_shift(x, graph.input("k", {{"a", 2}}), "n", true), Error);
}

TEST(HaloExchange, MatchesTheOriginal) {
  GoldenCase golden(MTF_SOURCE_DIR "/tests/golden/01_core_halo");
  Graph graph;
  const Tensor x = golden.input(graph, "x");
  golden.expect(graph, {{"halo_1", halo_exchange(x, "blocks", "w", 1)},
                        {"halo_wide", halo_exchange(x, "blocks", "w", 4)},
                        {"halo_wrap", halo_exchange(x, "blocks", "w", 2, true)},
                        {"left_halo", left_halo_exchange(x, "blocks", "w", 2)}});
}

TEST(HaloExchange, RecordedValues) {
  Graph graph;
  const Tensor x = graph.input("x", {{"nb", 4}, {"bs", 3}});
  const auto values = evaluate(graph,
                               {halo_exchange(x, "nb", "bs", 1), left_halo_exchange(x, "nb", "bs", 1),
                                halo_exchange(x, "nb", "bs", 3), halo_exchange(x, "nb", "bs", 4),
                                halo_exchange(x, "nb", "bs", 4, true), halo_exchange(x, "nb", "bs", 0)},
                               {{"x", count_from(1, 12)}});
  EXPECT_THAT(values[0], ElementsAreArray({0, 1, 2, 3, 4, 3, 4, 5, 6, 7, 6, 7, 8, 9, 10, 9, 10, 11, 12, 0}));
  EXPECT_THAT(values[1], ElementsAreArray({0, 1, 2, 3, 3, 4, 5, 6, 6, 7, 8, 9, 9, 10, 11, 12}));
  EXPECT_THAT(values[2], ElementsAreArray({0, 0, 0, 1, 2, 3, 4,  5,  6,  1, 2, 3, 4,  5,  6,  7, 8, 9,
                                           4, 5, 6, 7, 8, 9, 10, 11, 12, 7, 8, 9, 10, 11, 12, 0, 0, 0}));
  EXPECT_THAT(values[3],
              ElementsAreArray({0, 0, 0, 0, 1, 2, 3, 4,  5,  6,  7, 0, 1, 2, 3, 4,  5,  6,  7, 8, 9, 10,
                                3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0, 6, 7, 8, 9, 10, 11, 12, 0, 0, 0, 0}));
  EXPECT_THAT(values[4],
              ElementsAreArray({9, 10, 11, 12, 1, 2, 3, 4,  5,  6,  7, 12, 1, 2, 3, 4,  5,  6,  7, 8, 9, 10,
                                3, 4,  5,  6,  7, 8, 9, 10, 11, 12, 1, 6,  7, 8, 9, 10, 11, 12, 1, 2, 3, 4}));
  EXPECT_EQ(values[5], count_from(1, 12));
  EXPECT_THROW(halo_exchange(x, "nb", "bs", -1), Error);
}

TEST(Cumsum, RecordedValues) {
  Graph graph;
  const Tensor x = graph.input("x", {{"n", 4}});
  const auto values =
      evaluate(graph,
               {cumsum(x, "n"), cumsum(x, "n", {.exclusive = true}), cumsum(x, "n", {.reverse = true}),
                cumsum(x, "n", {.exclusive = true, .reverse = true})},
               {{"x", {0, 1, 2, 3}}});
  EXPECT_THAT(values[0], ElementsAre(0, 1, 3, 6));
  EXPECT_THAT(values[1], ElementsAre(0, 0, 1, 3));
  EXPECT_THAT(values[2], ElementsAre(6, 6, 5, 3));
  EXPECT_THAT(values[3], ElementsAre(6, 5, 3, 0));
}

TEST(Cumsum, ManyLanes) {
  Graph graph;
  const Shape shape{{"a", 2}, {"n", 3}, {"lanes", 150}};
  const auto values = evaluate(graph, {cumsum(graph.input("x", shape), "n")}, {{"x", Values(900, 1)}})[0];
  for (int64_t i = 0; i < 900; ++i) EXPECT_EQ(values[i], static_cast<double>(i / 150 % 3 + 1)) << i;
}

TEST(Cumsum, BFloat16IsSummedInFloat32) {
  Graph graph;
  const Tensor y = cumsum(graph.input("x", {{"n", 1000}}, DType::kBFloat16), "n");
  EXPECT_EQ(evaluate(graph, {y}, {{"x", Values(1000, 1)}})[0].back(), 1000);
}

TEST(Cumsum, AsksForTheWholeDimension) {
  Graph graph;
  const Operation& operation = cumsum(graph.input("x", {{"a", 4}, {"n", 4}}), "n").operation();
  const Mesh mesh(Shape::parse("rows:2;cols:2"));
  const LayoutMap rules(mesh, LayoutRules::parse("a:rows;n:cols"));
  const ShardingRule placement = operation.sharding_rule({rules, {rules.of({{"a", 4}, {"n", 4}})}});
  const Layout expected{{{0}, {}}, 0};
  EXPECT_EQ(placement.inputs[0], expected);
  EXPECT_EQ(placement.outputs[0], expected);
}

}  // namespace
}  // namespace mtf::testing
