// Tests concat, split, stack, unstack, slice, pad and pooling along one dimension.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/graph/gradients.h"
#include "engine/graph/structural.h"
#include "engine/ops/broadcast.h"
#include "engine/ops/concat.h"
#include "engine/ops/pool_1d.h"
#include "engine/ops/reduce.h"
#include "engine/ops/reshape.h"
#include "engine/ops/shift.h"
#include "engine/ops/slice.h"
#include "engine/ops/stack.h"
#include "engine/ops/unary.h"
#include "tests/support/evaluate_tensors.h"
#include "tests/support/failure.h"
#include "tests/support/golden.h"

namespace mtf::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Structure, MatchesTheOriginal) {
  GoldenCase golden(MTF_SOURCE_DIR "/tests/golden/01_core_shape_ops");
  Graph graph;
  const Tensor x = golden.input(graph, "x"), y = golden.input(graph, "y");
  const Tensors halves = split(x, "l", 2);
  golden.expect(graph, {{"pad", pad(x, "l", 1, 2)},
                        {"slice", slice(x, "l", 1, 3)},
                        {"concat", concat({x, y}, "l")},
                        {"split_0", halves[0]},
                        {"split_1", halves[1]},
                        {"stack", stack({x, scalar_multiply(x, 2)}, "n", 1)},
                        {"shift_pos", shift(x, 2, "l", false)},
                        {"shift_neg", shift(x, -1, "l", false)},
                        {"shift_wrap", shift(x, 2, "l", true)},
                        {"shift_wrap_neg", shift(x, -2, "l", true)},
                        {"reshape", reshape(x, golden.at("output/reshape").shape)},
                        {"transpose", transpose(x, golden.at("output/transpose").shape)},
                        {"rename", rename(x, "l", "memory_length")},
                        {"broadcast",
                         broadcast(reduce_sum(x, Dimension{"d", 4}), golden.at("output/broadcast").shape)}});
}

TEST(Concat, JoinsAndSplitCutsAgain) {
  Graph graph;
  const Tensor x = graph.input("x", {{"a", 2}, {"n", 2}}), y = graph.input("y", {{"a", 2}, {"n", 1}});
  const Tensor joined = concat({x, y}, "n");
  const Tensors parts = split(joined, "n", {2, 1});
  const auto values = evaluate(graph, {joined, parts[0], parts[1]}, {{"x", {1, 2, 3, 4}}, {"y", {5, 6}}});
  EXPECT_THAT(values[0], ElementsAre(1, 2, 5, 3, 4, 6));
  EXPECT_THAT(values[1], ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(values[2], ElementsAre(5, 6));
}

TEST(Concat, MatchesDimensionsByName) {
  Graph graph;
  const Tensor x = graph.input("x", {{"a", 2}, {"n", 1}}), y = graph.input("y", {{"n", 2}, {"a", 2}});
  const Tensor joined = concat({x, y}, "n");
  EXPECT_EQ(joined.shape(), (Shape{{"a", 2}, {"n", 3}}));
  EXPECT_THAT(evaluate(graph, {joined}, {{"x", {1, 2}}, {"y", {3, 4, 5, 6}}})[0],
              ElementsAre(1, 3, 5, 2, 4, 6));
}

TEST(Concat, CopiesEveryElementType) {
  for (DType dtype :
       {DType::kFloat32, DType::kBFloat16, DType::kFloat64, DType::kInt32, DType::kInt64, DType::kBool}) {
    Graph graph;
    const Tensor x = graph.input("x", {{"n", 2}}, dtype);
    EXPECT_THAT(evaluate(graph, {concat({x, x, x}, "n")}, {{"x", {1, 0}}})[0], ElementsAre(1, 0, 1, 0, 1, 0));
  }
}

TEST(Concat, LargeTensorsAreCutIntoTasks) {
  Graph graph;
  const Dimension rows{"rows", 3};
  const Tensor x = graph.input("x", {rows, {"n", 50000}}), y = graph.input("y", {rows, {"n", 1}});
  Values xs(150000), ys{-1, -2, -3};
  for (size_t i = 0; i < xs.size(); ++i) xs[i] = static_cast<double>(i);
  const Tensor joined = concat({x, y}, "n");
  const Tensors parts = split(joined, "n", {50000, 1});
  const auto values = evaluate(graph, {parts[0], parts[1]}, {{"x", xs}, {"y", ys}});
  EXPECT_EQ(values[0], xs);
  EXPECT_EQ(values[1], ys);
}

TEST(Concat, RefusesWhatDoesNotFit) {
  Graph graph;
  const Tensor x = graph.input("x", {{"a", 2}, {"n", 2}}), y = graph.input("y", {{"a", 3}, {"n", 2}});
  const Tensor ids = graph.input("ids", {{"a", 2}, {"n", 2}}, DType::kInt32);
  EXPECT_THAT(failure([&] { concat({x, y}, "n"); }), HasSubstr("[a=2, n=2]"));
  EXPECT_THAT(failure([&] { concat({x, ids}, "n"); }), HasSubstr("i32"));
  EXPECT_THAT(failure([&] { concat({x, x}, "m"); }), HasSubstr("`m`"));
  EXPECT_THAT(failure([&] { concat({}, "n"); }), HasSubstr("nothing to join"));
  EXPECT_THAT(failure([&] { split(x, "n", {1, 2}); }), HasSubstr("1 + 2 do not add up to `n` = 2"));
  EXPECT_THAT(failure([&] { split(x, "n", 3); }), HasSubstr("3 equal parts"));
}

TEST(Split, AMissingGradientIsZero) {
  Graph graph;
  const Tensor x = graph.input("x", {{"n", 4}});
  const Tensor dx = gradients({split(x, "n", {1, 2, 1})[1]}, {x})[0];
  EXPECT_THAT(evaluate(graph, {dx}, {{"x", {1, 2, 3, 4}}})[0], ElementsAre(0, 1, 1, 0));
}

TEST(Stack, NegativeAxesCountFromTheEnd) {
  Graph graph;
  const Tensor x = graph.input("x", {{"a", 2}}), y = graph.input("y", {{"a", 2}});
  const Tensor first = stack({x, y}, "n"), last = stack({x, y}, "n", -1);
  EXPECT_EQ(first.shape(), (Shape{{"n", 2}, {"a", 2}}));
  EXPECT_EQ(last.shape(), (Shape{{"a", 2}, {"n", 2}}));
  EXPECT_EQ(stack({x, y}, "n", -2).shape(), first.shape());
  const auto values = evaluate(graph, {first, last}, {{"x", {1, 2}}, {"y", {3, 4}}});
  EXPECT_THAT(values[0], ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(values[1], ElementsAre(1, 3, 2, 4));
}

TEST(Stack, RefusesWhatDoesNotFit) {
  Graph graph;
  const Tensor x = graph.input("x", {{"a", 2}}), y = graph.input("y", {{"a", 3}});
  EXPECT_THAT(failure([&] { stack({x, y}, "n"); }), HasSubstr("differ"));
  EXPECT_THAT(failure([&] { stack({x, x}, "n", 2); }), HasSubstr("axis 2"));
  EXPECT_THAT(failure([&] { stack({x, x}, "n", -3); }), HasSubstr("-2 to 1"));
  EXPECT_THAT(failure([&] { stack({x, x}, "a"); }), HasSubstr("`a`"));
}

TEST(Unstack, AMissingGradientIsZero) {
  Graph graph;
  const Tensor x = graph.input("x", {{"a", 2}, {"n", 3}});
  const Tensors entries = unstack(x, "n");
  ASSERT_EQ(entries.size(), 3u);
  const Tensor dx = gradients({entries[2]}, {x})[0];
  const auto values = evaluate(graph, {entries[1], dx}, {{"x", {1, 2, 3, 4, 5, 6}}});
  EXPECT_THAT(values[0], ElementsAre(2, 5));
  EXPECT_THAT(values[1], ElementsAre(0, 0, 1, 0, 0, 1));
}

TEST(Slice, RefusesARangeThatIsNotThere) {
  Graph graph;
  const Tensor x = graph.input("x", {{"n", 4}});
  EXPECT_THAT(failure([&] { slice(x, "n", 2, 3); }), HasSubstr("no range of 3 entries from 2 on"));
  EXPECT_THAT(failure([&] { slice(x, "n", -1, 2); }), HasSubstr("from -1 on"));
  EXPECT_THAT(failure([&] { slice(x, "n", 0, 0); }), HasSubstr("0 entries"));
  EXPECT_THAT(failure([&] { pad(x, "n", -1, 0); }), HasSubstr("-1"));
}

TEST(Structure, TheDimensionCannotBeSplit) {
  Graph graph;
  const Tensor x = graph.input("x", {{"a", 2}, {"n", 4}});
  for (const Tensor& y : {concat({x, x}, "n"), split(x, "n", 2)[0], slice(x, "n", 1, 2), pad(x, "n", 1, 1),
                          stack({x, x}, "n2"), unstack(x, "n")[0]}) {
    const std::string expected = y.operation().name() == "stack" ? "n2" : "n";
    EXPECT_THAT(y.operation().unsplittable(), ElementsAre(expected)) << y.operation().name();
  }
}

TEST(Structure, PartialSumsPassThroughWhenAllOperandsArePartial) {
  Graph graph;
  const Tensor x = graph.input("x", {{"a", 4}, {"n", 4}}), y = graph.input("y", {{"a", 4}, {"n", 4}});
  const Mesh mesh(Shape::parse("rows:2;cols:2"));
  const LayoutMap rules(mesh, LayoutRules::parse("a:rows"));
  const Layout whole = rules.of(x.shape()), partial{whole.split, axis_bit(1)};
  const Operation& joined = concat({x, y}, "n").operation();
  EXPECT_EQ(joined.sharding_rule({rules, {partial, partial}}).outputs[0], partial);
  EXPECT_EQ(joined.sharding_rule({rules, {partial, whole}}).outputs[0], whole);
  EXPECT_EQ(slice(x, "n", 0, 2).operation().sharding_rule({rules, {partial}}).outputs[0], partial);
  EXPECT_EQ(pad(x, "n", 0, 2).operation().sharding_rule({rules, {partial}}).outputs[0], partial);
  EXPECT_EQ(split(x, "n", 2)[0].operation().sharding_rule({rules, {partial}}).outputs[1], partial);
  EXPECT_EQ(stack({x, y}, "m").operation().sharding_rule({rules, {partial, partial}}).outputs[0].partial,
            axis_bit(1));
}

TEST(Pool1d, ReducesWindows) {
  Graph graph;
  const Tensor x = graph.input("x", {{"n", 6}});
  const Tensors pooled{pool_tensor_1d(x, "n"), pool_tensor_1d(x, "n", Pooling::kMax, 3),
                       pool_tensor_1d(x, "n", Pooling::kMin, 3), stride_tensor_1d(x, "n")};
  EXPECT_EQ(pooled[0].shape(), (Shape{{"n", 3}}));
  const auto values = evaluate(graph, pooled, {{"x", {1, 3, 2, 6, 5, 4}}});
  EXPECT_THAT(values[0], ElementsAre(2, 4, 4.5));
  EXPECT_THAT(values[1], ElementsAre(3, 6));
  EXPECT_THAT(values[2], ElementsAre(1, 4));
  EXPECT_THAT(values[3], ElementsAre(1, 2, 5));
  EXPECT_THAT(failure([&] { pool_tensor_1d(x, "n", Pooling::kMean, 4); }), HasSubstr("whole windows of 4"));
}

}  // namespace
}  // namespace mtf::testing
