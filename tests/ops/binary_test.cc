#include "engine/ops/binary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/base/error.h"
#include "engine/graph/gradients.h"
#include "tests/support/evaluate_tensors.h"
#include "tests/support/failure.h"
#include "tests/support/operation_cases.h"

namespace mtf::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using BinaryFunction = Tensor (*)(const Tensor&, const Tensor&);

Values values_of(BinaryFunction function, const Values& a, const Values& b, DType dtype = DType::kFloat32) {
  Graph graph;
  const Tensor x = graph.input("a", {{"n", static_cast<int64_t>(a.size())}}, dtype);
  const Tensor y = graph.input("b", {{"n", static_cast<int64_t>(b.size())}}, dtype);
  return evaluate(graph, {function(x, y)}, {{"a", a}, {"b", b}})[0];
}

TEST(Binary, OutputIsTheLargerShapeElseTheFirstFollowedByNewDimensions) {
  const Dimension a{"a", 2}, b{"b", 3}, c{"c", 4};
  EXPECT_EQ(broadcast_shape("add", {a, c}, {a, b, c}), (Shape{a, b, c}));
  EXPECT_EQ(broadcast_shape("add", {a, b, c}, {c}), (Shape{a, b, c}));
  EXPECT_EQ(broadcast_shape("add", {a, b}, {c, b}), (Shape{a, b, c}));
  EXPECT_EQ(broadcast_shape("add", {a, b}, {b, a}), (Shape{a, b}));
  EXPECT_EQ(broadcast_shape("add", {}, {b}), (Shape{b}));
}

/// Returns the element of a tensor of shape `from` for each element of a tensor of shape `to`.
Values repeated(const Shape& from, const Values& values, const Shape& to) {
  const std::vector<int64_t> from_strides = from.strides(), to_strides = to.strides();
  Values result(to.size());
  for (int64_t i = 0; i < to.size(); ++i) {
    int64_t offset = 0;
    for (int axis = 0; axis < from.rank(); ++axis) {
      offset += i / to_strides[*to.find(from[axis].name)] % from[axis].size * from_strides[axis];
    }
    result[i] = values[offset];
  }
  return result;
}

// Checks all pairs of operand shapes and output orders against index arithmetic.
TEST(Binary, BroadcastsByName) {
  const Dimension a{"a", 3}, b{"b", 5}, c{"c", 300};  // c is longer than a block
  const std::vector<Shape> shapes = {{}, {a}, {c}, {b, c}, {a, c}, {c, a}, {a, b, c}, {c, b, a}};
  const std::vector<Shape> orders = {{a, b, c}, {c, a, b}, {b, c, a}};
  for (const Shape& left : shapes) {
    for (const Shape& right : shapes) {
      for (const Shape& order : orders) {
        for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kInt32}) {
          Graph graph;
          CaseBuilder build(graph, dtype);
          Values left_values(left.size()), right_values(right.size());
          for (size_t i = 0; i < left_values.size(); ++i) left_values[i] = static_cast<double>(i % 13);
          for (size_t i = 0; i < right_values.size(); ++i) right_values[i] = static_cast<double>(i % 7) - 3;
          const Tensor x = build.values("x", left, dtype, left_values);
          const Tensor y = build.values("y", right, dtype, right_values);
          const Values result = evaluate(graph, {subtract(x, y, order)}, build.feeds)[0];
          const Values xs = repeated(left, left_values, order), ys = repeated(right, right_values, order);
          for (int64_t i = 0; i < order.size(); ++i) {
            ASSERT_EQ(result[i], xs[i] - ys[i])
                << left.to_string() << " - " << right.to_string() << " -> " << order.to_string() << " " << i;
          }
        }
      }
    }
  }
}

// A block has several rows, and tasks begin within one.
TEST(Binary, MeetsAVectorInShortRows) {
  for (const int64_t size : {1, 3, 32, 100, 128, 129}) {
    const Dimension rows{"rows", 70'000 / size + 1}, columns{"columns", size};
    Values matrix, vector;
    for (int64_t i = 0; i < rows.size * size; ++i) matrix.push_back(static_cast<double>(i * 7919 % 61) - 30);
    for (int64_t i = 0; i < size; ++i) vector.push_back(static_cast<double>(i * 31 % 59) - 29);
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {  // these integers are exact in both
      Graph graph;
      const Tensor x = graph.input("x", {rows, columns}, dtype), v = graph.input("v", {columns}, dtype);
      const auto results =
          evaluate(graph, {subtract(x, v), subtract(v, x), less(v, x)}, {{"x", matrix}, {"v", vector}});
      for (size_t i = 0; i < matrix.size(); ++i) {
        const double a = matrix[i], b = vector[i % vector.size()];
        ASSERT_EQ((Values{results[0][i], results[1][i], results[2][i]}),
                  (Values{a - b, b - a, b < a ? 1.0 : 0.0}))
            << size << " at " << i;
      }
    }
  }
}

TEST(Binary, ArithmeticOfIntegers) {
  for (DType dtype : {DType::kInt32, DType::kInt64}) {
    EXPECT_THAT(values_of(floor_divide, {-3, 3, 7, -8}, {4, -4, 2, 4}, dtype), ElementsAre(-1, -1, 3, -2));
    EXPECT_THAT(values_of(modulo, {-3, 3, 7, -8}, {4, -4, 2, 4}, dtype), ElementsAre(1, -1, 1, 0));
    EXPECT_THAT(values_of(floor_divide, {5, -5}, {0, -1}, dtype), ElementsAre(0, 5));
    EXPECT_THAT(values_of(modulo, {5, -5}, {0, -1}, dtype), ElementsAre(0, 0));
    EXPECT_THAT(values_of(maximum, {1, 5}, {2, 3}, dtype), ElementsAre(2, 5));
    EXPECT_THAT(values_of(multiply, {1, 5}, {2, 3}, dtype), ElementsAre(2, 15));
  }
  const double lowest = std::numeric_limits<int32_t>::min();
  EXPECT_THAT(values_of(floor_divide, {lowest}, {-1}, DType::kInt32), ElementsAre(lowest));
}

TEST(Binary, FloorDivideAndModuloOfFloatsFollowTheDivisorsSign) {
  EXPECT_THAT(values_of(floor_divide, {-3, 5.5}, {4, 2}), ElementsAre(-1, 2));
  EXPECT_THAT(values_of(modulo, {-3, 5.5, 3}, {4, 2, -4}), ElementsAre(1, 1.5, -1));
}

TEST(Binary, Comparisons) {
  const Values a = {1, 2, 3, kNaN}, b = {2, 2, 2, kNaN};
  for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
    EXPECT_THAT(values_of(less, a, b, dtype), ElementsAre(1, 0, 0, 0));
    EXPECT_THAT(values_of(less_equal, a, b, dtype), ElementsAre(1, 1, 0, 0));
    EXPECT_THAT(values_of(greater, a, b, dtype), ElementsAre(0, 0, 1, 0));
    EXPECT_THAT(values_of(greater_equal, a, b, dtype), ElementsAre(0, 1, 1, 0));
    EXPECT_THAT(values_of(equal, a, b, dtype), ElementsAre(0, 1, 0, 0));
    EXPECT_THAT(values_of(not_equal, a, b, dtype), ElementsAre(1, 0, 1, 1));
  }
  const Values p = {0, 0, 1, 1}, q = {0, 1, 0, 1};
  EXPECT_THAT(values_of(logical_and, p, q, DType::kBool), ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(values_of(logical_or, p, q, DType::kBool), ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(values_of(equal, p, q, DType::kBool), ElementsAre(1, 0, 0, 1));
  EXPECT_THAT(values_of(not_equal, p, q, DType::kBool), ElementsAre(0, 1, 1, 0));
}

TEST(Binary, ExtremaOfNaNAreNaN) {
  for (BinaryFunction function : std::initializer_list<BinaryFunction>{minimum, maximum}) {
    const Values y = values_of(function, {kNaN, 1, 1}, {1, kNaN, 2});
    EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[1]) && !std::isnan(y[2]));
  }
}

TEST(Binary, TiesSendTheWholeGradientToBothAndSumItToTheOperandsShape) {
  Graph graph;
  const Tensor x = graph.input("x", {{"n", 3}}), limit = graph.input("limit", {});
  const Tensors slopes = gradients({maximum(x, limit)}, {x, limit});
  EXPECT_EQ(slopes[1].shape(), Shape());
  const auto values = evaluate(graph, slopes, {{"x", {1, 2, 3}}, {"limit", {2}}});
  EXPECT_THAT(values[0], ElementsAre(0, 1, 1));
  EXPECT_THAT(values[1], ElementsAre(2));
}

TEST(Where, SelectsAndKeepsNaNOut) {
  Graph graph;
  const Dimension n{"n", 2};
  const Tensor condition = graph.input("condition", {n}, DType::kBool);
  const Tensor a = graph.input("a", {n}), b = graph.input("b", {n});
  const Tensor y = where(condition, a, b);
  const Tensors slopes = gradients({y * a}, {a, b});
  const auto values =
      evaluate(graph, {y, slopes[1]}, {{"condition", {1, 0}}, {"a", {1, 5}}, {"b", {kNaN, 2}}});
  EXPECT_THAT(values[0], ElementsAre(1, 2));
  EXPECT_THAT(values[1], ElementsAre(0, 5));
}

TEST(Where, MovesElementsOfEveryType) {
  for (DType dtype :
       {DType::kFloat32, DType::kBFloat16, DType::kFloat64, DType::kInt32, DType::kInt64, DType::kBool}) {
    Graph graph;
    const Tensor condition = graph.input("condition", {{"m", 2}}, DType::kBool);
    const Tensor a = graph.input("a", {{"n", 3}}, dtype), b = graph.input("b", {}, dtype);
    const auto y =
        evaluate(graph, {where(condition, a, b)}, {{"condition", {1, 0}}, {"a", {0, 1, 1}}, {"b", {1}}});
    EXPECT_THAT(y[0], ElementsAre(0, 1, 1, 1, 1, 1)) << name_of(dtype);  // [n, m]
  }
}

TEST(Binary, SumsOfPartialSumsStayPartial) {
  Graph graph;
  const Dimension n{"n", 4};
  const Tensor a = graph.input("a", {n}), b = graph.input("b", {n}), scalar = graph.input("scalar", {});
  const Mesh mesh(Shape::parse("rows:2;cols:2"));
  const LayoutMap rules(mesh, LayoutRules());
  const Layout over_both{{{}}, axis_bit(0) | axis_bit(1)}, over_rows{{{}}, axis_bit(0)}, whole{{{}}, 0};
  const auto output = [&](const Tensor& y, const Layout& first, const Layout& second) {
    return y.operation().sharding_rule({rules, {first, second}}).outputs[0].partial;
  };
  EXPECT_EQ(output(a + b, over_both, over_rows), axis_bit(0));
  EXPECT_EQ(output(a - b, over_rows, whole), 0u);
  EXPECT_EQ(output(a + scalar, over_rows, Layout{{}, axis_bit(0)}), 0u);
  EXPECT_EQ(output(a * scalar, over_rows, Layout{}), axis_bit(0));
  EXPECT_EQ(output(scalar * a, Layout{}, over_rows), axis_bit(0));
  EXPECT_EQ(output(a / scalar, over_rows, Layout{}), axis_bit(0));
  EXPECT_EQ(output(scalar / a, Layout{{}, axis_bit(0)}, whole), 0u);
  EXPECT_EQ(output(a * b, over_rows, whole), 0u);
}

TEST(Binary, OverwritesAnOperandOfTheOutputsShape) {
  Graph graph;
  const Dimension m{"m", 2}, n{"n", 3};
  const Tensor x = graph.input("x", {m, n}), bias = graph.input("bias", {n});
  EXPECT_EQ((x + bias).operation().in_place(0), 0);
  EXPECT_EQ((bias + x).operation().in_place(0), 1);
  EXPECT_EQ(add(x, bias, {n, m}).operation().in_place(0), std::nullopt);
  EXPECT_EQ(less(x, x).operation().in_place(0), std::nullopt);
}

TEST(Binary, RejectsWhatDoesNotFit) {
  Graph graph;
  const Dimension n{"n", 4};
  const Tensor x = graph.input("x", {n}), ids = graph.input("ids", {n}, DType::kInt32);
  const Tensor longer = graph.input("longer", {{"n", 5}}), flags = graph.input("flags", {n}, DType::kBool);
  EXPECT_THAT(failure([&] { add(x, ids); }),
              HasSubstr("add: the operands are float32 and int32; cast one of them"));
  EXPECT_THAT(failure([&] { add(x, longer); }),
              HasSubstr("add: `n` has size 4 in [n=4] and size 5 in [n=5]"));
  EXPECT_THAT(failure([&] { divide(ids, ids); }), HasSubstr("divide: not defined for int32"));
  EXPECT_THAT(failure([&] { add(flags, flags); }), HasSubstr("add: not defined for bool"));
  EXPECT_THAT(failure([&] { logical_and(x, x); }), HasSubstr("logical_and: not defined for float32"));
  EXPECT_THAT(failure([&] {
                add(x, x, {{"m", 4}});
              }),
              HasSubstr("add: the output [m=4] lacks dimensions of operand [n=4]"));
  EXPECT_THAT(failure([&] { where(x, x, x); }), HasSubstr("where: the condition is float32"));
  EXPECT_THAT(failure([&] { where(flags, x, ids); }), HasSubstr("where: the operands are float32 and int32"));
  EXPECT_THAT(failure([&] { gradients({modulo(x, x)}, {x}); }), HasSubstr("modulo: has no gradient"));
}

}  // namespace
}  // namespace mtf::testing
