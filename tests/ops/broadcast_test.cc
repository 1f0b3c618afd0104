#include "engine/ops/broadcast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/base/error.h"
#include "engine/graph/gradients.h"
#include "engine/ops/cast.h"
#include "engine/ops/reduce.h"
#include "engine/ops/transpose.h"
#include "tests/support/evaluate_tensors.h"
#include "tests/support/failure.h"
#include "tests/support/golden.h"

namespace mtf::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr DType kAllTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat64,
                               DType::kInt32,   DType::kInt64,    DType::kBool};

TEST(Broadcast, AndTransposeAgreeWithTheGoldenValues) {
  GoldenCase golden(MTF_SOURCE_DIR "/tests/golden/01_core_shape_ops");
  Graph graph;
  const Tensor x = golden.input(graph, "x");
  const Dimension b = x.shape()[0], l = x.shape()[1], d = x.shape()[2], n{"n", 2};
  golden.expect(
      graph, {{"transpose", transpose(x, {d, b, l})}, {"broadcast", broadcast(reduce_sum(x, d), {n, b, l})}});
}

/// Returns element i of a tensor of shape `to`, taken from x of shape `from`.
double element(const Shape& from, const Values& x, const Shape& to, int64_t i) {
  int64_t offset = 0;
  for (int axis = 0; axis < to.rank(); ++axis) {
    const auto own = from.find(to[axis].name);
    if (own) offset += i / to.strides()[axis] % to[axis].size * from.strides()[*own];
  }
  return x[offset];
}

void expect_rearranged(const Shape& from, const Shape& to, DType dtype) {
  Graph graph;
  Values x(from.size());
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<double>(dtype == DType::kBool ? i % 3 == 0 : i % 251);
  const Tensor input = graph.input("x", from, dtype);
  const Values y = evaluate(graph, {broadcast(input, to)}, {{"x", x}})[0];
  for (int64_t i = 0; i < to.size(); ++i) {
    ASSERT_EQ(y[i], element(from, x, to, i))
        << from.to_string() << " -> " << to.to_string() << ", element " << i;
  }
}

TEST(Broadcast, RepeatsAlongNewDimensionsInAnyOrder) {
  const Dimension a{"a", 2}, b{"b", 3}, c{"c", 5};
  for (DType dtype : kAllTypes) {
    for (const Shape& from : {Shape{}, Shape{b}, Shape{b, c}, Shape{c, b}}) {
      std::vector<Dimension> order = {a, b, c};
      do {
        expect_rearranged(from, Shape(order), dtype);
      } while (std::next_permutation(order.begin(), order.end(),
                                     [](const Dimension& p, const Dimension& q) { return p.name < q.name; }));
    }
  }
}

TEST(Transpose, OfEveryOrderAndOfPartsOfTiles) {
  for (DType dtype : kAllTypes) {
    std::vector<Dimension> order = {{"a", 3}, {"b", 33}, {"c", 40}, {"d", 1}};
    const Shape from(order);
    do {
      expect_rearranged(from, Shape(order), dtype);
    } while (std::next_permutation(order.begin(), order.end(),
                                   [](const Dimension& p, const Dimension& q) { return p.name < q.name; }));
  }
}

TEST(Transpose, ToTheSameOrderReturnsTheTensorItself) {
  Graph graph;
  const Tensor x = graph.input("x", {{"m", 2}, {"n", 3}});
  EXPECT_EQ(transpose(x, x.shape()), x);
  EXPECT_EQ(broadcast(x, x.shape()), x);
  EXPECT_EQ(broadcast(x, {{"n", 3}, {"m", 2}}).operation().name(), "transpose");
}

TEST(Transpose, PassesPartialSumsButBroadcastReducesThemFirst) {
  Graph graph;
  const Dimension m{"m", 2}, n{"n", 2}, k{"k", 2};
  const Tensor x = graph.input("x", {m, n});
  const Mesh mesh(Shape::parse("rows:2"));
  const LayoutMap rules(mesh, LayoutRules::parse("k:rows"));
  const Layout partial{{{}, {}}, axis_bit(0)};
  EXPECT_EQ(transpose(x, {n, m}).operation().sharding_rule({rules, {partial}}).outputs[0], partial);
  EXPECT_EQ(broadcast(x, {k, m, n}).operation().sharding_rule({rules, {partial}}).inputs[0].partial, 0u);
}

TEST(Broadcast, RejectsAnOutputThatLacksADimension) {
  Graph graph;
  const Tensor x = graph.input("x", {{"m", 2}, {"n", 3}});
  EXPECT_THAT(failure([&] {
                broadcast(x, {{"m", 2}, {"k", 4}});
              }),
              HasSubstr("broadcast: [m=2, k=4] lacks dimensions of [m=2, n=3]"));
  EXPECT_THAT(failure([&] {
                transpose(x, {{"m", 2}});
              }),
              HasSubstr("transpose: [m=2, n=3] and [m=2] have different dimensions"));
}

TEST(Cast, BetweenEveryPairOfTypes) {
  for (DType from : kAllTypes) {
    for (DType to : kAllTypes) {
      Graph graph;
      const Tensor x = graph.input("x", {{"n", 3}}, from), y = cast(x, to);
      EXPECT_EQ(y.dtype(), to);
      const bool flags = from == DType::kBool || to == DType::kBool;
      EXPECT_THAT(evaluate(graph, {y}, {{"x", {0, 1, flags ? 1.0 : -3.0}}})[0],
                  ElementsAre(0, 1, flags ? 1 : -3))
          << name_of(from) << " to " << name_of(to);
    }
  }
}

TEST(Cast, TruncatesToIntegersAndRoundsToBFloat16) {
  Graph graph;
  const Tensor x = graph.input("x", {{"n", 4}});
  const auto y = evaluate(graph, {cast(x, DType::kInt32), cast(x, DType::kBFloat16), cast(x, DType::kBool)},
                          {{"x", {-1.75, 2.75, 1.00390625, 1.01171875}}});
  EXPECT_THAT(y[0], ElementsAre(-1, 2, 1, 1));
  EXPECT_THAT(y[1], ElementsAre(-1.75, 2.75, 1, 1.015625));  // ties to even
  EXPECT_THAT(y[2], ElementsAre(1, 1, 1, 1));
}

TEST(Cast, SendsTheGradientBackBetweenFloatingTypesOnly) {
  Graph graph;
  const Tensor x = graph.input("x", {{"n", 2}});
  const Tensor wide = cast(x, DType::kFloat64);
  const Tensor dx = gradients({wide}, {x})[0];
  EXPECT_EQ(dx.dtype(), DType::kFloat32);
  EXPECT_THAT(evaluate(graph, {dx}, {{"x", {1, 2}}})[0], ElementsAre(1, 1));
  EXPECT_FALSE(gradients({cast(cast(x, DType::kInt32), DType::kFloat32)}, {x})[0]);
  EXPECT_EQ(cast(x, DType::kFloat32), x);
}

}  // namespace
}  // namespace mtf::testing
