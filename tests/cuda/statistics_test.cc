// Kernels of which normalisation over batch and space is made: moments, affine and statistics_norm.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "engine/graph/gradients.h"
#include "engine/ops/affine.h"
#include "engine/ops/moments.h"
#include "engine/ops/statistics_norm.h"
#include "tests/cuda/kernel_comparison.h"
#include "tests/cuda/run_on.h"
#include "tests/support/budget.h"

namespace mtf::testing {
namespace {

constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat64};

Shape random_shape(std::mt19937& random, int64_t most) {
  constexpr int64_t kSizes[] = {1, 2, 3, 4, 5, 7, 8, 16, 24, 33, 64};
  std::vector<Dimension> dimensions;
  int64_t size = 1;
  for (const char* name : {"a", "b", "c", "d"}) {
    const int64_t n = kSizes[random() % std::size(kSizes)];
    if (size * n > most) continue;
    dimensions.push_back({name, n});
    size *= n;
  }
  return Shape(dimensions);
}

/// Some of the dimensions, in any order.
Shape some_of(const Shape& shape, std::mt19937& random) {
  std::vector<Dimension> kept;
  for (const Dimension& d : shape) {
    if (random() % 2) kept.push_back(d);
  }
  std::ranges::shuffle(kept, random);
  return Shape(kept);
}

void expect_same_moments(const Shape& shape, const Shape& kept, DType dtype, bool of_itself = false) {
  SCOPED_TRACE(fmt::format("{} {} to {}", name_of(dtype), shape.to_string(), kept.to_string()));
  Graph graph;
  const Tensor x = graph.input("x", shape, dtype);
  const Tensor y = of_itself ? x : graph.input("y", shape, dtype);
  KernelComparison comparison(moments(x, y, kept).sum);
  comparison.tolerance = 1e-14 * static_cast<double>(shape.size() / kept.size() + 10);
  comparison.expect_same();
}

TEST(CudaMoments, OfRandomShapes) {
  std::mt19937 random(43);
  for (int i = 0; i < tries(100); ++i) {
    const Shape shape = random_shape(random, 20000), kept = some_of(shape, random);
    for (const DType dtype : kTypes) expect_same_moments(shape, kept, dtype, i % 4 == 0);
    if (HasFailure()) return;
  }
}

TEST(CudaMoments, OfLongSums) {
  const Dimension batch{"batch", 13}, space{"space", 700}, few{"channels", 3}, many{"channels", 72};
  for (const DType dtype : kTypes) {
    expect_same_moments({batch, space, few}, {few}, dtype);
    expect_same_moments({batch, space, many}, {many}, dtype);
    expect_same_moments({batch, many, space}, {many}, dtype);
    expect_same_moments({batch, space, few}, {batch}, dtype);
    expect_same_moments({space, batch, few}, {}, dtype);
    expect_same_moments({batch, few}, {few, batch}, dtype);
  }
}

/// The variance of 1e4 + n is that of n: sums keep what float32 has.
TEST(CudaMoments, OfLargeMeans) {
  const Shape shape{{"batch", 500}, {"channels", 8}};
  Graph graph;
  const Tensor x = graph.input("x", shape);
  KernelComparison comparison(moments(x, x, {{"channels", 8}}).sum);
  Values values = random_normal_values(shape.size(), 5);
  for (double& value : values) value = static_cast<float>(10000 + value);
  for (ComparedOperand& input : comparison.inputs) input.values = values;
  comparison.tolerance = 1e-14;
  comparison.expect_same();
}

TEST(CudaAffine, OfRandomShapes) {
  std::mt19937 random(47);
  for (int i = 0; i < tries(100); ++i) {
    const Shape shape = random_shape(random, 20000), coefficients = some_of(shape, random);
    for (const DType dtype : kTypes) {
      SCOPED_TRACE(
          fmt::format("{}: {} {} by {}", i, name_of(dtype), shape.to_string(), coefficients.to_string()));
      Graph graph;
      const Tensor x = graph.input("x", shape, dtype), y = graph.input("y", shape, dtype);
      const DType wide = dtype == DType::kBFloat16 ? DType::kFloat32 : dtype;
      const auto coefficient = [&](const char* name) { return graph.input(name, coefficients, wide); };
      const Tensor a = coefficient("a"), b = coefficient("b"), c = coefficient("c");
      for (const Tensor& result : {affine(x, a, b), affine(x, a, y, c, b)}) {
        KernelComparison comparison(result);
        comparison.tolerance = dtype == DType::kFloat64 ? 1e-14 : 1e-6;
        comparison.expect_same();
      }
    }
    if (HasFailure()) return;
  }
}

/// Batch, instance and group norm with their gradients, whole and on slices.
TEST(CudaStatisticsNorm, GivesWhatTheProcessorGives) {
  const Dimension batch{"batch", 4}, rows{"rows", 6}, group{"group", 2}, channels{"channels", 8};
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const Shape& statistics :
         {Shape{group, channels}, Shape{batch, group, channels}, Shape{batch, group}}) {
      Graph graph;
      const Shape shape{batch, rows, group, channels}, parameters{group, channels};
      const Tensor x = graph.input("x", shape, dtype), scale = graph.input("scale", parameters, dtype),
                   bias = graph.input("bias", parameters, dtype), dy = graph.input("dy", shape, dtype);
      const Normalized result = normalize(x, statistics, scale, bias, 1e-3);
      graph.set_output("y", result.y);
      graph.set_output("variance", result.variance);
      const Tensors d = gradients({result.y}, {x, scale, bias}, {dy});
      for (size_t i = 0; i < d.size(); ++i) graph.set_output(fmt::format("d{}", i), d[i]);
      const std::map<std::string, Values> feeds{{"x", random_normal_values(shape.size(), 1)},
                                                {"scale", random_normal_values(parameters.size(), 2)},
                                                {"bias", random_normal_values(parameters.size(), 3)},
                                                {"dy", random_normal_values(shape.size(), 4)}};
      for (const auto& [mesh, rules] : {std::pair("a:1", ""), std::pair("a:2;b:2", "batch:a;rows:b"),
                                        std::pair("a:2;b:2", "group:a;channels:b")}) {
        SCOPED_TRACE(fmt::format("{} {} by {}", name_of(dtype), statistics.to_string(), rules));
        const Program program = partition(graph, layouts(mesh, rules));
        const Results expected = run_on(*make_cpu_backend(), program, feeds),
                      actual = run_on(cuda_device(), program, feeds);
        for (const auto& [name, tensor] : expected)
          expect_same_values(name, actual.at(name).bytes, tensor.bytes, tensor.dtype,
                             dtype == DType::kFloat32 ? 2e-6 : 2e-2);
      }
    }
  }
}

}  // namespace
}  // namespace mtf::testing
