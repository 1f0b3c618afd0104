// Unary and binary functions, casts, selections, broadcasts, transposes, sums of terms, constants, buckets of
// positions, dropout and random tensors.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/graph/structural.h"
#include "engine/ops/binary.h"
#include "engine/ops/broadcast.h"
#include "engine/ops/cast.h"
#include "engine/ops/random.h"
#include "engine/ops/relative_bucket.h"
#include "engine/ops/transpose.h"
#include "engine/ops/unary.h"
#include "tests/cuda/kernel_comparison.h"
#include "tests/support/unary_cases.h"

namespace mtf::testing {
namespace {

constexpr DType kFloating[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat64};
constexpr DType kIntegers[] = {DType::kInt32, DType::kInt64};
constexpr DType kAll[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat64,
                          DType::kInt32,   DType::kInt64,    DType::kBool};
constexpr double kRounding = 1e-6, kInfinity = std::numeric_limits<double>::infinity(),
                 kNaN = std::numeric_limits<double>::quiet_NaN();

/// Compares both out of place and in place.
void expect_same(KernelComparison comparison) {
  comparison.expect_same();
  comparison.in_place = true;
  comparison.expect_same();
}

void expect_same(const Tensor& output, double tolerance = 0) {
  KernelComparison comparison(output);
  comparison.tolerance = tolerance;
  expect_same(comparison);
}

/// Values of every magnitude, special ones first. Their number is not a multiple of a pack.
Values magnitudes() {
  Values values = {0,   -0.0, 1,   -1,  kInfinity, -kInfinity, kNaN, 1e-42, -1e-42, 3e38, -3e38, 88.7, -88.7,
                   104, -104, 100, 101, -100,      -101,       0.5,  -0.5,  0.625,  2,    -2,    7.5};
  for (double x = 1e-8; x < 200; x *= 1.07) values.insert(values.end(), {x, -x});
  return values;
}

using Function = mtf::testing::UnaryCase;

void expect_same_function(const Function& function, DType dtype, const Values& x) {
  Graph graph;
  KernelComparison comparison(function(graph.input("x", {{"a", static_cast<int64_t>(x.size())}}, dtype)));
  comparison.inputs[0].values = x;
  comparison.tolerance = kRounding;
  expect_same(comparison);
}

TEST(Unary, FunctionsAreThoseOfTheProcessor) {
  for (const Function& function : kUnaryCases) {
    for (DType dtype : kFloating) {
      expect_same_function(function, dtype, magnitudes());
      expect_same_function(function, dtype, {0.7});
    }
  }
}

TEST(Unary, FunctionsOfWholeNumbers) {
  for (DType dtype : kIntegers) {
    for (const Function& function : std::initializer_list<Function>{
             negative, square, abs, sign, [](const Tensor& x) { return scalar_multiply(x, 3); },
             [](const Tensor& x) { return scalar_add(x, -7); }}) {
      expect_same_function(function, dtype, random_whole_values(1003, -1000, 1000, 1));
    }
  }
  expect_same_function(logical_not, DType::kBool, random_whole_values(1003, 0, 2, 1));
}

TEST(Unary, GradientsAreThoseOfTheProcessor) {
  for (const UnaryFunction function : mtf::testing::kWithGradientKernel) {
    for (DType dtype : kFloating) {
      Graph graph;
      const Values x = magnitudes();
      const Shape shape{{"a", static_cast<int64_t>(x.size())}};
      const Tensor dy = graph.input("dy", shape, dtype), v = graph.input("x", shape, dtype);
      KernelComparison comparison(graph.add<UnaryGradient>(function, dy, v, 0.3).output());
      comparison.inputs[1].values = x;
      comparison.tolerance = kRounding;
      expect_same(comparison);
    }
  }
}

using Binary = Tensor (*)(const Tensor&, const Tensor&, const Shape&);
constexpr Binary kArithmetic[] = {add, subtract, multiply, divide, minimum, maximum, modulo};
constexpr Binary kComparisons[] = {less, greater, less_equal, greater_equal, equal, not_equal};

/// The operands include NaN, ties and zeros on both sides.
TEST(Binary, FunctionsAreThoseOfTheProcessor) {
  const auto check = [](Binary function, DType dtype, double tolerance = 0) {
    Graph graph;
    const Shape shape{{"a", 37}, {"b", 37}};
    Values values = is_floating(dtype) ? Values{0, -0.0, kInfinity, -kInfinity, kNaN, 1e-40, 1, -1, 3, -3}
                                       : Values{0, 1, -1, 3, -3, 1e9, -1e9};
    const Values more =
        is_floating(dtype) ? random_normal_values(37 - 10, 1) : random_whole_values(30, -9, 9, 1);
    values.insert(values.end(), more.begin(), more.end());
    KernelComparison comparison(
        function(graph.input("x", {{"a", 37}}, dtype), graph.input("y", {{"b", 37}}, dtype), shape));
    comparison.inputs[0].values = comparison.inputs[1].values = values;
    comparison.tolerance = tolerance;
    expect_same(comparison);
  };
  for (DType dtype : kFloating) {
    for (Binary function : kArithmetic) check(function, dtype);
    for (Binary function : kComparisons) check(function, dtype);
    check(floor_divide, dtype, kRounding);  // the sign of 0 may differ
  }
  for (DType dtype : kIntegers) {
    for (Binary function : std::initializer_list<Binary>{minimum, maximum, floor_divide, modulo})
      check(function, dtype);
    for (Binary function : kComparisons) check(function, dtype);
  }
}

TEST(Binary, FunctionsOfTruthValuesAndSumsOfWholeNumbers) {
  const Shape shape{{"a", 5}, {"b", 48}};
  for (Binary function : std::initializer_list<Binary>{logical_and, logical_or, equal, not_equal}) {
    Graph graph;
    KernelComparison comparison(
        function(graph.input("x", shape, DType::kBool), graph.input("y", {{"b", 48}}, DType::kBool), shape));
    comparison.inputs[0].values = random_whole_values(240, 0, 2, 1);
    comparison.inputs[1].values = random_whole_values(48, 0, 2, 2);
    expect_same(comparison);
  }
  for (DType dtype : kIntegers) {
    for (Binary function : std::initializer_list<Binary>{add, subtract, multiply}) {
      Graph graph;
      expect_same(function(graph.input("x", shape, dtype), graph.input("y", shape, dtype), shape));
    }
  }
}

/// Shapes of operands of an output [a, b, c]: whole, rows, columns, a single number, and others that repeat.
std::vector<Shape> operand_shapes(int64_t c) {
  const Dimension a{"a", 3}, b{"b", 4}, d{"c", c};
  return {{a, b, d}, {d}, {a}, {b}, {}, {a, b}, {b, d}, {a, d}, {d, b, a}, {b, a, d}, {d, a}};
}

/// Row lengths that are whole packs, and some that are not.
constexpr int64_t kColumnCounts[] = {16, 8, 4, 6, 5, 1, 33};

TEST(Binary, OperandsOfEveryShapeAreBroadcast) {
  for (int64_t c : kColumnCounts) {
    const Shape output{{"a", 3}, {"b", 4}, {"c", c}};
    for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kInt64}) {
      for (const Shape& x : operand_shapes(c)) {
        for (const Shape& y : {output, Shape{{"c", c}}, Shape{{"b", 4}}, Shape{}}) {
          Graph graph;
          expect_same(subtract(graph.input("x", x, dtype), graph.input("y", y, dtype), output));
          expect_same(subtract(graph.input("y", y, dtype), graph.input("x", x, dtype), output));
        }
      }
    }
  }
}

TEST(Binary, ManyElements) {
  Graph graph;
  const Shape whole{{"a", 513}, {"b", 64}, {"c", 3}, {"d", 8}};
  const Tensor x = graph.input("x", whole), y = graph.input("y", {{"b", 64}, {"d", 8}});
  expect_same(add(x, y, whole));
}

TEST(Where, SelectsFromOperandsOfEveryShape) {
  for (int64_t c : kColumnCounts) {
    const Shape output{{"a", 3}, {"b", 4}, {"c", c}};
    for (DType dtype : kAll) {
      for (const Shape& shape : operand_shapes(c)) {
        for (int operand = 0; operand < 3; ++operand) {
          Graph graph;
          const Tensor condition = graph.input("condition", operand == 0 ? shape : output, DType::kBool);
          const Tensor x = graph.input("x", operand == 1 ? shape : output, dtype);
          const Tensor y = graph.input("y", operand == 2 ? shape : output, dtype);
          KernelComparison comparison(where(condition, x, y, output));
          for (ComparedOperand& input : comparison.inputs) {
            if (input.dtype == DType::kBool)
              input.values = random_whole_values(input.local.size(), 0, 2, static_cast<uint32_t>(c));
          }
          expect_same(comparison);
        }
      }
    }
  }
}

TEST(Cast, FromEveryTypeToEveryType) {
  for (DType from : kAll) {
    for (DType to : kAll) {
      for (int64_t n : {1, 8, 1003}) {
        Graph graph;
        KernelComparison comparison(graph.add<Cast>(graph.input("x", {{"a", n}}, from), to).output());
        Values& x = comparison.inputs[0].values;
        if (from == DType::kBool) x = random_whole_values(n, 0, 2, 1);
        if (!is_floating(from) && from != DType::kBool) x = random_whole_values(n, -100000, 100000, 1);
        if (is_floating(from)) {
          x = random_normal_values(n, 1);
          for (double& value : x) value *= 1000;
          if (is_floating(to) || to == DType::kBool) x[0] = kNaN;
        }
        expect_same(comparison);
      }
    }
  }
}

TEST(Broadcast, OfEveryShapeAndSizeOfElements) {
  for (int64_t c : kColumnCounts) {
    const Shape output{{"a", 3}, {"b", 4}, {"c", c}};
    for (DType dtype : kAll) {
      for (const Shape& x : operand_shapes(c)) {
        Graph graph;
        expect_same(graph.add<Broadcast>(graph.input("x", x, dtype), output).output());
      }
    }
  }
}

TEST(Transpose, EveryOrderOfFourAxes) {
  for (int64_t inner : {3, 8, 33}) {
    std::vector<Dimension> axes = {{"a", 2}, {"b", 5}, {"c", 35}, {"d", inner}};
    const Shape x(axes);
    std::vector<size_t> order = {0, 1, 2, 3};
    do {
      const Shape y{axes[order[0]], axes[order[1]], axes[order[2]], axes[order[3]]};
      for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64, DType::kBool}) {
        Graph graph;
        expect_same(graph.add<Transpose>(graph.input("x", x, dtype), y).output());
      }
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

TEST(Transpose, MatricesOfManyTilesAndNarrowOnes) {
  for (DType dtype : kAll) {
    for (const auto& [rows, columns] : std::initializer_list<std::pair<int64_t, int64_t>>{
             {130, 97}, {64, 64}, {2, 5000}, {3000, 3}, {700, 16}, {1, 9}, {33, 1}}) {
      Graph graph;
      const Dimension r{"r", rows}, c{"c", columns};
      expect_same(graph.add<Transpose>(graph.input("x", {r, c}, dtype), Shape{c, r}).output());
    }
  }
}

TEST(AddN, RoundsEachSumInOrder) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64, DType::kInt32}) {
    for (int terms : {1, 2, 5, 32, 64}) {
      Graph graph;
      Tensors inputs;
      for (int i = 0; i < terms; ++i)
        inputs.push_back(graph.input("x" + std::to_string(i), {{"a", 37}, {"b", 11}}, dtype));
      KernelComparison(graph.add<AddN>(inputs).output()).expect_same();
    }
  }
}

TEST(Constant, OfEveryType) {
  for (DType dtype : kAll) {
    for (double value : {0.0, 1.0, 3.7}) {
      Graph graph;
      expect_same(graph.add<Constant>(value, dtype, Shape{{"a", 13}, {"b", 11}}).output());
      expect_same(graph.add<Constant>(value, dtype, Shape{}).output());
    }
  }
}

TEST(MicrobatchSlice, TakesItsExamples) {
  for (int64_t inner : {1, 3, 8}) {
    for (int64_t iteration : {0, 1, 2}) {
      for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kBool}) {
        Graph graph;
        const Tensor x = graph.input("x", {{"a", 3}, {"batch", 12}, {"c", inner}}, dtype);
        KernelComparison comparison(graph.add<MicrobatchSlice>(x, Microbatching{"batch", 3}).output());
        comparison.iteration = iteration;
        comparison.expect_same();
      }
    }
  }
}

TEST(RelativeBucket, LooksUpEveryDistance) {
  for (const RelativeBuckets& buckets :
       {RelativeBuckets{}, RelativeBuckets{false, 32, 128}, RelativeBuckets{true, 8, 20},
        RelativeBuckets{true, 600, 1000}, RelativeBuckets{false, 257, 300}}) {
    Graph graph;
    const Tensor x = graph.input("x", {{"a", 50}, {"b", 101}}, DType::kInt32);
    KernelComparison comparison(relative_bucket(x, buckets));
    comparison.inputs[0].values = random_whole_values(5050, -1100, 1100, 1);
    for (int i = 0; i < 300; ++i) comparison.inputs[0].values[static_cast<size_t>(i)] = i - 150;
    expect_same(comparison);
  }
}

const Dimension batch{"batch", 6}, length{"length", 10};

TEST(Dropout, HasTheMaskOfTheProcessor) {
  for (int64_t width : {8, 20, 3, 64}) {
    const Dimension d{"d", width};
    for (const Shape& noise : {Shape{batch, length, d}, Shape{batch, d}, Shape{batch, length},
                               Shape{length, batch}, Shape{d, batch, length}, Shape{d}, Shape{}}) {
      for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64, DType::kInt32}) {
        Graph graph;
        KernelComparison comparison(dropout(graph.input("x", {batch, length, d}, dtype), 0.3, noise));
        comparison.seed = 7;
        comparison.step = (uint64_t{1} << 40) + 5;
        expect_same(comparison);
      }
    }
  }
}

TEST(Dropout, OfASliceInAMicrobatch) {
  for (int64_t width : {16, 6}) {
    Graph graph;
    const Dimension d{"d", width};
    const Shape global{{"batch", 4}, length, d};
    const Tensor x = graph.input("x", global, DType::kBFloat16);
    for (const Shape& noise : {global, Shape{{"batch", 4}, d}}) {
      const RandomSource source{"drop", {"batch", 3}};
      KernelComparison comparison(graph.add<Dropout>(x, 0.5, noise, source).output());
      const Shape local{{"batch", 2}, {"length", 5}, {"d", width / 2}};
      comparison.inputs[0].take(local, {2, 5, width / 2});
      comparison.outputs[0].take(local, {2, 5, width / 2});
      comparison.iteration = 2;
      expect_same(comparison);
    }
  }
}

TEST(RandomTensors, AreThoseOfTheProcessor) {
  for (DType dtype : kFloating) {
    for (int64_t width : {64, 7}) {
      Graph graph;
      const Shape shape{batch, length, {"d", width}};
      const Shape local{{"batch", 3}, length, {"d", width}};
      for (const Tensor& tensor :
           {random_uniform(graph, shape, -2, 3, dtype), random_normal(graph, shape, 1, 0.5, dtype),
            random_gumbel(graph, shape, 0.5, 2, dtype)}) {
        KernelComparison comparison(tensor);
        comparison.step = 11;
        comparison.expect_same();
        comparison.outputs[0].take(local, {3, 0, 0});
        comparison.expect_same();
      }
    }
  }
}

}  // namespace
}  // namespace mtf::testing
