#include "engine/ops/top_k.h"

#include <gtest/gtest.h>

#include "tests/cuda/kernel_comparison.h"
#include "tests/support/evaluate_tensors.h"

namespace mtf::testing {
namespace {

constexpr DType kRankedTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat64, DType::kInt32};

/// Values with ties, and for floats NaN, infinities and zeros of both signs.
Values difficult(int64_t count, DType dtype, uint32_t seed) {
  Values values = random_whole_values(count, -50, 50, seed);
  if (dtype == DType::kInt32) {
    for (size_t i = 0; i < values.size(); i += 7) values[i] = i % 2 == 0 ? -2147483648.0 : 2147483647.0;
    return values;
  }
  const Values places = random_whole_values(std::max<int64_t>(1, count / 10), 0, count, seed + 1);
  const double special[] = {kNaN, kInfinity, -kInfinity, -0.0, 0.0, -kNaN, 1e-300};
  for (size_t i = 0; i < places.size(); ++i)
    values[static_cast<size_t>(places[i])] = special[i % std::size(special)];
  return values;
}

void expect_same(const Shape& shape, int64_t k, DType dtype) {
  Graph graph;
  KernelComparison comparison(top_k(graph.input("x", shape, dtype), "n", {"k", k}).values);
  comparison.expect_same();
  comparison.inputs[0].values = difficult(shape.size(), dtype, 5);
  comparison.expect_same();
  comparison.inputs[0].values.assign(static_cast<size_t>(shape.size()), 2);
  comparison.expect_same();
}

TEST(TopK, OfShortRows) {
  for (DType dtype : kRankedTypes) {
    for (int64_t n : {1, 5, 32, 100, 256}) {
      for (int64_t k : {1, 2, 5, 31}) {
        if (k > n) continue;
        expect_same({{"a", 11}, {"n", n}}, k, dtype);
        expect_same({{"a", 3}, {"n", n}, {"b", 5}}, k, dtype);
      }
    }
  }
}

TEST(TopK, OfLongRows) {
  for (DType dtype : kRankedTypes) {
    for (int64_t n : {257, 2048, 2049, 9000}) {
      for (int64_t k : {1, 4, 32}) expect_same({{"a", 2}, {"n", n}}, k, dtype);
    }
  }
  expect_same({{"n", 150000}}, 32, DType::kFloat32);
}

TEST(TopK, OfMany) {
  for (DType dtype : kRankedTypes) {
    for (int64_t n : {33, 1024, 1025, 3500}) {
      for (int64_t k : {33, 700, 1024, 1500, 3500}) {
        if (k <= n) expect_same({{"a", 2}, {"n", n}, {"b", 2}}, k, dtype);
      }
    }
  }
}

TEST(TopKGradient, OfSlices) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
    for (const Shape& shape : {Shape{{"a", 3}, {"n", 12}, {"b", 5}}, Shape{{"n", 300}}}) {
      Graph graph;
      const Shape k = shape - Shape{shape.dimension("n")} + Dimension{"k", 3};
      const Tensor dvalues = graph.input("dvalues", k, dtype),
                   indices = graph.input("indices", k, DType::kInt32);
      KernelComparison comparison(graph.add<TopKGradient>(dvalues, indices, "n", "k", shape).output());
      const int64_t n = shape.dimension("n").size;
      for (int64_t row = 0; row < k.size() / 3; ++row) {
        for (int64_t i : {row % n, (row + 7) % n, (row + 8) % n})
          comparison.inputs[1].values.push_back(static_cast<double>(i));
      }
      comparison.expect_same();
      std::vector<int64_t> begin(static_cast<size_t>(shape.rank()));
      begin[static_cast<size_t>(*shape.find("n"))] = n / 2;
      comparison.outputs[0].take(shape.resized("n", n / 2), begin);
      comparison.expect_same();
    }
  }
}

}  // namespace
}  // namespace mtf::testing
