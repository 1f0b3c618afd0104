#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "engine/ops/reduce.h"
#include "tests/cuda/kernel_comparison.h"
#include "tests/support/evaluate_tensors.h"

namespace mtf::testing {
namespace {

constexpr DType kNumbers[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat64, DType::kInt32,
                              DType::kInt64};

Tensors reductions(const Tensor& x, const Shape& output) {
  if (x.dtype() == DType::kBool) return {reduce_all(x, output), reduce_any(x, output)};
  Tensors result{reduce_sum(x, output), reduce_max(x, output), reduce_min(x, output)};
  if (x.dtype() == DType::kBFloat16) {
    result.push_back(x.graph().add<Reduce>(ReduceFunction::kSum, x, output, DType::kFloat32).output());
  }
  return result;
}

void expect_same(const Shape& shape, const Shape& output, DType dtype) {
  Graph graph;
  const Tensor x = graph.input("x", shape, dtype);
  for (const Tensor& y : reductions(x, output)) {
    SCOPED_TRACE(shape.to_string() + " to " + output.to_string() + " of " + std::string(name_of(dtype)));
    KernelComparison comparison(y);
    if (dtype == DType::kBool) comparison.inputs[0].values = random_whole_values(shape.size(), 0, 2, 1);
    comparison.tolerance = is_floating(dtype) ? 1e-7 * std::sqrt(static_cast<double>(shape.size())) : 0;
    comparison.expect_same();
  }
}

Shape random_shape(std::mt19937& random) {
  constexpr int64_t kSizes[] = {1, 1, 2, 3, 4, 5, 7, 8, 12, 16, 33, 64};
  std::vector<Dimension> dimensions;
  int64_t size = 1;
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    const int64_t n = kSizes[random() % std::size(kSizes)];
    if (size * n > 10000) continue;
    dimensions.push_back({name, n});
    size *= n;
  }
  return Shape(dimensions);
}

TEST(Reductions, OfRandomShapesToAnySubsetInAnyOrder) {
  std::mt19937 random(1);
  for (int i = 0; i < 50; ++i) {
    const Shape shape = random_shape(random);
    std::vector<Dimension> kept;
    for (const Dimension& dimension : shape) {
      if (random() % 2 == 0) kept.push_back(dimension);
    }
    if (random() % 2 == 0) std::shuffle(kept.begin(), kept.end(), random);
    if (same_dimensions(shape, Shape(kept))) continue;
    for (DType dtype : kNumbers) expect_same(shape, Shape(kept), dtype);
    expect_same(shape, Shape(kept), DType::kBool);
  }
}

/// There are few outputs, so their elements are divided among blocks.
TEST(Reductions, OfLongRowsAndColumns) {
  const Dimension a{"a", 3}, b{"b", 70000}, c{"c", 8}, d{"d", 9000}, odd{"o", 70001};
  for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kInt64}) {
    expect_same({b}, {}, dtype);
    expect_same({a, odd}, {a}, dtype);
    expect_same({d, c}, {c}, dtype);
    expect_same({d, a}, {a}, dtype);
    expect_same({a, d, c}, {c, a}, dtype);
    expect_same({d, a, c}, {a}, dtype);
  }
}

TEST(Reductions, ExtremaOfNaNAndInfinity) {
  const Shape shape{{"a", 4}, {"b", 600}};
  Values values = random_normal_values(shape.size(), 1);
  values[300] = kNaN;
  values[600 + 7] = kInfinity;
  values[600 + 8] = -kInfinity;
  std::fill(values.begin() + 1200, values.begin() + 1800, -kInfinity);
  std::fill(values.begin() + 1800, values.end(), kNaN);
  for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
    for (const Shape& output : {Shape{shape[0]}, Shape{shape[1]}, Shape{}}) {
      Graph graph;
      for (const Tensor& y : reductions(graph.input("x", shape, dtype), output)) {
        KernelComparison comparison(y);
        comparison.inputs[0].values = values;
        comparison.tolerance = 1e-6;
        comparison.expect_same();
      }
    }
  }
}

/// float32 has 24 bits: a sum that loses small terms would be far off.
TEST(Reductions, SumsKeepSmallTerms) {
  for (const Shape& shape :
       {Shape{{"a", 1}, {"b", 300000}}, Shape{{"b", 300000}, {"a", 1}}, Shape{{"b", 100000}, {"a", 3}}}) {
    Graph graph;
    KernelComparison comparison(
        reduce_sum(graph.input("x", shape), Shape{{"a", shape[*shape.find("a")].size}}));
    comparison.inputs[0].values = Values(static_cast<size_t>(shape.size()), 0.1);
    comparison.inputs[0].values[0] = 1e6;
    comparison.tolerance = 2e-6;
    comparison.expect_same();
  }
}

TEST(Reductions, SumOfSquares) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
    for (const int64_t n : {1, 5, 500, 4097, 300001}) {
      Graph graph;
      KernelComparison comparison(sum_of_squares(graph.input("x", {{"a", n}}, dtype)));
      comparison.tolerance = 1e-14;
      comparison.expect_same();
    }
  }
}

TEST(ReduceFirst, WhereTheFirstEntryIsAndElsewhere) {
  const Dimension n{"n", 6};
  const Shape shape{{"a", 3}, n, {"b", 5}};
  for (const int64_t begin : {0, 2}) {
    for (DType dtype : kNumbers) {
      Graph graph;
      KernelComparison comparison(reduce_first(graph.input("x", shape, dtype), "n"));
      comparison.inputs[0].take({{"a", 3}, {"n", 2}, {"b", 5}}, {0, begin, 0});
      comparison.expect_same();
      if (!is_floating(dtype)) continue;
      KernelComparison gradient(
          graph.add<ReduceFirstGradient>(graph.input("dy", shape - n, dtype), n, shape).output());
      gradient.outputs[0].take({{"a", 3}, {"n", 2}, {"b", 5}}, {0, begin, 0});
      gradient.expect_same();
    }
  }
}

}  // namespace
}  // namespace mtf::testing
