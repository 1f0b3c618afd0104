#include "engine/ops/reduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <span>

#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/backend/squares.h"
#include "engine/base/error.h"
#include "engine/graph/gradients.h"
#include "engine/ops/binary.h"
#include "engine/ops/unary.h"
#include "tests/support/evaluate_tensors.h"
#include "tests/support/failure.h"
#include "tests/support/golden.h"
#include "tests/support/test_backend.h"

namespace mtf::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Reduce, AgreesWithTheGoldenReductionsAndBroadcasts) {
  GoldenCase golden(MTF_SOURCE_DIR "/tests/golden/01_core_reduce");
  Graph graph;
  const Tensor x = golden.input(graph, "x"), x2 = golden.input(graph, "x2");
  const Tensor y = golden.input(graph, "y"), z = golden.input(graph, "z");
  const Dimension b = x.shape()[0], l = x.shape()[1], d = x.shape()[2];
  golden.expect(graph, {{"add_bcast", x + y},
                        {"div", x / scalar_add(square(y), 1.5)},
                        {"max_l", reduce_max(x, l)},
                        {"maximum", maximum(x, x2)},
                        {"maximum_bcast_forward_only", maximum(x, y)},
                        {"mean_l", reduce_mean(x, l)},
                        {"min_d", reduce_min(x, d)},
                        {"minimum", minimum(x, x2)},
                        {"mul_bcast", y * z},
                        {"sum_all", reduce_sum(x, {})},
                        {"sum_to_dl", reduce_sum(x, {d, l})}});
}

/// Returns the strides of `output` along the axes of `shape`; 0 for those that it lacks.
std::vector<int64_t> kept_strides(const Shape& shape, const Shape& output) {
  std::vector<int64_t> result;
  for (const Dimension& d : shape)
    result.push_back(output.contains(d) ? output.strides()[*output.find(d.name)] : 0);
  return result;
}

/// Reduces to `output`, one element after the other.
Values reference(const Shape& shape, const Values& x, const Shape& output, double first,
                 const std::function<double(double, double)>& combine) {
  Values y(output.size(), first);
  const std::vector<int64_t> strides = shape.strides(), kept = kept_strides(shape, output);
  for (int64_t i = 0; i < shape.size(); ++i) {
    int64_t offset = 0;
    for (int axis = 0; axis < shape.rank(); ++axis)
      offset += i / strides[axis] % shape[axis].size * kept[axis];
    y[offset] = combine(y[offset], x[i]);
  }
  return y;
}

TEST(Reduce, ToEverySubsetInEveryOrder) {
  const Dimension a{"a", 3}, b{"b", 70}, c{"c", 300};  // longer than lanes, row blocks and column groups
  const Shape shape{a, b, c};
  Values x(shape.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i * 7919 % 101) - 50;
  for (const Shape& output : {Shape{}, Shape{a}, Shape{b}, Shape{c}, Shape{a, b}, Shape{b, a}, Shape{a, c},
                              Shape{c, a}, Shape{b, c}, Shape{c, b}, Shape{c, b, a}}) {
    for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kInt32, DType::kInt64}) {
      Graph graph;
      const Tensor input = graph.input("x", shape, dtype);
      const auto y =
          evaluate(graph, {reduce_sum(input, output), reduce_max(input, output), reduce_min(input, output)},
                   {{"x", x}});
      EXPECT_EQ(y[0], reference(shape, x, output, 0, std::plus<>())) << output.to_string();
      EXPECT_EQ(y[1], reference(shape, x, output, -1000, [](double p, double q) { return std::max(p, q); }));
      EXPECT_EQ(y[2], reference(shape, x, output, 1000, [](double p, double q) { return std::min(p, q); }));
    }
  }
}

TEST(Reduce, FloatSumsAreAccurateTo2Parts10ToThe7) {
  const Dimension rows{"rows", 1'000'000}, few{"few", 3};
  for (const Shape& shape : {Shape{rows}, Shape{rows, few}, Shape{few, rows}}) {
    Graph graph;
    const Tensor x = graph.input("x", shape), y = reduce_sum(x, shape - rows);
    const auto results = evaluate(graph, {y}, {{"x", Values(shape.size(), 0.1)}});
    for (double value : results[0]) {
      EXPECT_NEAR(value / 1e6, static_cast<float>(0.1), 2e-8) << shape.to_string();
    }
  }
}

TEST(Reduce, BFloat16IsAddedInFloat32AndRoundedOnce) {
  Graph graph;
  const Tensor x = graph.input("x", {{"n", 1000}}, DType::kBFloat16);
  EXPECT_EQ(evaluate(graph, {reduce_sum(x, {})}, {{"x", Values(1000, 1.0)}})[0][0], 1000);
}

TEST(Reduce, TheGradientOfAnExtremumGoesToEveryTiedElement) {
  Graph graph;
  const Tensor x = graph.input("x", {{"n", 4}});
  const Values slopes = evaluate(graph, gradients({reduce_max(x, {})}, {x}), {{"x", {1, 3, 3, 2}}})[0];
  EXPECT_THAT(slopes, ElementsAre(0, 1, 1, 0));
}

TEST(Reduce, NaNComesOut) {
  for (size_t place : {0u, 17u, 99u}) {
    Graph graph;
    const Tensor x = graph.input("x", {{"m", 100}, {"n", 2}});
    Values values(200, 1.0);
    values[2 * place] = kNaN;
    for (const Shape& output : {Shape{}, Shape{{"n", 2}}}) {
      const auto y = evaluate(graph, {reduce_sum(x, output), reduce_max(x, output), reduce_min(x, output)},
                              {{"x", values}});
      for (const Values& result : y) EXPECT_TRUE(std::isnan(result[0])) << place;
      EXPECT_FALSE(std::isnan(y[1].back()) && output.rank() == 1);
    }
  }
}

TEST(Reduce, AllAndAny) {
  Graph graph;
  const Dimension m{"m", 3}, n{"n", 2};
  const Tensor x = graph.input("x", {m, n}, DType::kBool);
  const auto y = evaluate(graph, {reduce_all(x, n), reduce_any(x, n), reduce_all(x, m), reduce_any(x, {})},
                          {{"x", {1, 1, 0, 1, 0, 0}}});
  EXPECT_THAT(y[0], ElementsAre(1, 0, 0));
  EXPECT_THAT(y[1], ElementsAre(1, 1, 0));
  EXPECT_THAT(y[2], ElementsAre(0, 0));
  EXPECT_THAT(y[3], ElementsAre(1));
}

TEST(Reduce, MeanAndFirst) {
  Graph graph;
  const Dimension m{"m", 2}, n{"n", 4};
  const Tensor x = graph.input("x", {m, n});
  const Tensor first = reduce_first(x, "n");
  const auto y =
      evaluate(graph, {reduce_mean(x, n), first, reduce_first(x, "m"), gradients({square(first)}, {x})[0]},
               {{"x", {1, 2, 3, 4, 5, 6, 7, 8}}});
  EXPECT_THAT(y[0], ElementsAre(2.5, 6.5));
  EXPECT_THAT(y[1], ElementsAre(1, 5));
  EXPECT_THAT(y[2], ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(y[3], ElementsAre(2, 0, 0, 0, 10, 0, 0, 0));
}

TEST(Reduce, SumOfSquares) {
  Graph graph;
  const Shape shape{{"m", 100}, {"n", 1000}};
  const Tensor x = graph.input("x", shape), half = graph.input("half", {{"n", 3}}, DType::kBFloat16);
  EXPECT_EQ(sum_of_squares(half).dtype(), DType::kFloat64);
  const auto y = evaluate(graph, {sum_of_squares(x), sum_of_squares(half)},
                          {{"x", Values(shape.size(), 3.0)}, {"half", {1, -2, 3}}});
  EXPECT_THAT(y[0], ElementsAre(900'000));
  EXPECT_THAT(y[1], ElementsAre(14));
}

TEST(Reduce, OfNothingReturnsTheTensorItself) {
  Graph graph;
  const Tensor x = graph.input("x", {{"m", 2}, {"n", 3}});
  EXPECT_EQ(reduce_sum(x, x.shape()), x);
  EXPECT_EQ(reduce_mean(x, x.shape()), x);
  EXPECT_EQ(reduce_sum(x, {{"n", 3}, {"m", 2}}).operation().name(), "transpose");
}

TEST(Reduce, OverASplitDimensionLeavesAPartialResult) {
  Graph graph;
  const Dimension m{"m", 4}, n{"n", 4};
  const Tensor x = graph.input("x", {m, n});
  const Mesh mesh(Shape::parse("rows:2;cols:2"));
  const LayoutMap rules(mesh, LayoutRules::parse("m:rows"));
  const auto place = [&](const Tensor& y, AxisMask partial) {
    return y.operation().sharding_rule({rules, {Layout{{{0}, {}}, partial}}});
  };
  EXPECT_EQ(place(reduce_sum(x, {n}), 0).outputs[0].partial, axis_bit(0));
  EXPECT_EQ(place(reduce_sum(x, {m}), 0).outputs[0].partial, 0u);
  EXPECT_EQ(place(reduce_sum(x, {n}), axis_bit(1)).outputs[0].partial, axis_bit(0) | axis_bit(1));
  EXPECT_EQ(place(reduce_max(x, {n}), axis_bit(1)).inputs[0].partial, 0u);
  EXPECT_EQ(place(reduce_max(x, {n}), 0).reduction, Reduction::kMax);
  EXPECT_EQ(place(reduce_min(x, {n}), 0).reduction, Reduction::kMin);
  EXPECT_EQ(place(sum_of_squares(x), axis_bit(1)).inputs[0].partial, 0u);
  EXPECT_EQ(place(sum_of_squares(x), 0).outputs[0].partial, axis_bit(0));
  EXPECT_EQ(place(reduce_first(x, "m"), 0).outputs[0].partial, axis_bit(0));
}

// The second half of a split dimension contributes nothing, whatever its values are.
TEST(Reduce, FirstTakesItsElementFromThePositionThatHoldsIt) {
  Graph graph;
  const Tensor x = graph.input("x", {{"n", 4}}), y = reduce_first(x, "n");
  const LocalTensor half{{{"n", 4}}, {{"n", 2}}, {1}, DType::kFloat32}, scalar{{}, {}, {}, DType::kFloat32};
  const auto kernel = prepare_cpu_kernel({y.operation(), {half}, {scalar}});
  for (int64_t begin : {0, 2}) {
    float values[2] = {7, static_cast<float>(kNaN)}, result = -1;
    if (begin == 2) values[0] = static_cast<float>(kNaN);
    const Slice in{reinterpret_cast<std::byte*>(values), &begin},
        out{reinterpret_cast<std::byte*>(&result), nullptr};
    kernel->run(KernelCall{std::span(&in, 1), std::span(&out, 1)}, 0, kernel->tasks());
    EXPECT_EQ(result, begin == 0 ? 7 : 0);
  }
}

// Ranges of tasks may run in any order, on any thread, without changing the bits.
TEST(Reduce, TasksAreIndependent) {
  const Shape shape{{"m", 300}, {"n", 700}};
  std::vector<float> x(shape.size());
  std::mt19937 generator(1);
  for (float& v : x) v = std::uniform_real_distribution<float>(-1, 1)(generator);
  for (const char* kept : {"m", "n"}) {
    Graph graph;
    const Shape output{shape.dimension(kept)};
    const Tensor y = reduce_sum(graph.input("x", shape), output);
    const auto kernel = prepare_cpu_kernel({y.operation(),
                                            {{shape, shape, shape.strides(), DType::kFloat32}},
                                            {{output, output, output.strides(), DType::kFloat32}}});
    ASSERT_GT(kernel->tasks(), 1);
    std::vector<float> whole(output.size()), backwards(output.size());
    const auto run = [&](std::vector<float>& result, int64_t begin, int64_t end) {
      const Slice in{reinterpret_cast<std::byte*>(x.data()), nullptr};
      const Slice out{reinterpret_cast<std::byte*>(result.data()), nullptr};
      kernel->run(KernelCall{std::span(&in, 1), std::span(&out, 1)}, begin, end);
    };
    run(whole, 0, kernel->tasks());
    for (int64_t task = kernel->tasks(); task-- > 0;) run(backwards, task, task + 1);
    EXPECT_EQ(whole, backwards);
  }
}

TEST(Reduce, RejectsWhatDoesNotFit) {
  Graph graph;
  const Tensor x = graph.input("x", {{"n", 4}}), ids = graph.input("ids", {{"n", 4}}, DType::kInt32);
  EXPECT_THAT(failure([&] {
                reduce_sum(x, {{"m", 2}});
              }),
              HasSubstr("reduce_sum: the output [m=2] has dimensions that [n=4] lacks"));
  EXPECT_THAT(failure([&] { reduce_sum(x, Dimension{"m", 2}); }), HasSubstr("no dimension `m`"));
  EXPECT_THAT(failure([&] { reduce_all(x, {}); }), HasSubstr("reduce_all: not defined for float32"));
  EXPECT_THAT(failure([&] { reduce_mean(ids, {}); }), HasSubstr("reduce_mean: not defined for int32"));
  EXPECT_THAT(failure([&] { reduce_first(x, "m"); }), HasSubstr("no dimension `m`"));
  EXPECT_THAT(failure([&] { sum_of_squares(ids); }), HasSubstr("sum_of_squares: not defined for int32"));
}

// The bits do not depend on where the elements are: the sums of blocks, added in order, give the result.
TEST(SumOfSquares, IsTheSumOfItsBlocksInOrder) {
  // On a device the order is its own: its sums agree up to rounding.
  const bool exact = test_backend()->is_host();
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  for (const int64_t count : {1, 31, 32, 500, 512, 513, 530, 1024, 5000, 5133, 100007}) {
    std::vector<float> x(static_cast<size_t>(count));
    for (float& element : x) element = normal(random);
    Graph graph;
    const Tensor input = graph.input("x", {{"a", count}});
    const double expected =
        evaluate(graph, {sum_of_squares(input)}, {{"x", Values(x.begin(), x.end())}})[0][0];
    const auto bytes = std::as_bytes(std::span(x));
    const double tolerance = exact ? 0 : 1e-6 * expected;
    EXPECT_NEAR(sum_of_squares(bytes.data(), DType::kFloat32, count), expected, tolerance) << count;
    if (count < 2 * kSquaresBlock) continue;
    std::vector<double> first(1), others(squares_blocks(count - kSquaresBlock));
    squares_of_blocks(bytes.data(), DType::kFloat32, kSquaresBlock, first);
    squares_of_blocks(bytes.data() + kSquaresBlock * sizeof(float), DType::kFloat32, count - kSquaresBlock,
                      others);
    double sum = first[0];
    for (const double block : others) sum += block;
    EXPECT_NEAR(sum, expected, tolerance) << count;
  }
}

}  // namespace
}  // namespace mtf::testing
