#include "engine/ops/statistics_norm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "engine/graph/gradients.h"
#include "engine/ops/binary.h"
#include "engine/ops/unary.h"
#include "tests/support/golden.h"
#include "tests/support/run_on_mesh.h"

namespace mtf::testing {
namespace {

TEST(StatisticsNorm, HasTheRecordedValuesOfBatchNorm) {
  GoldenCase golden(MTF_SOURCE_DIR "/tests/golden/01_core_batch_norm_train");
  Graph graph;
  const Tensor x = golden.input(graph, "x");
  const Tensor scale = golden.weight(graph, "bn/batch_norm_scale"),
               bias = golden.weight(graph, "bn/batch_norm_bias");
  golden.expect(graph, {{"y", normalize(x, scale.shape(), scale, bias, 1e-6).y}});
}

TEST(StatisticsNorm, HasTheRecordedValuesOfGivenStatistics) {
  GoldenCase golden(MTF_SOURCE_DIR "/tests/golden/01_core_batch_norm_eval");
  Graph graph;
  const Tensor x = golden.input(graph, "x");
  const Tensor scale = golden.weight(graph, "bn/batch_norm_scale"),
               bias = golden.weight(graph, "bn/batch_norm_bias");
  golden.expect(graph,
                {{"y", normalize_by(x, golden.weight(graph, "bn/bn_moving_mean"),
                                    golden.weight(graph, "bn/bn_moving_variance"), scale, bias, 1e-6)}});
}

/// The mean is 1000 times the deviation: a difference of float32 sums would lose the variance.
TEST(StatisticsNorm, IsAccurateFarFromZero) {
  Graph graph;
  const Dimension batch{"batch", 20000}, channels{"channels", 2};
  const Tensor x = graph.input("x", {batch, channels});
  const Tensor scale = graph.constant(1, DType::kFloat32, {channels});
  const Normalized n = normalize(x, {channels}, scale, graph.constant(0, DType::kFloat32, {channels}), 0);
  std::mt19937 random(1);
  std::normal_distribution<float> normal(1000, 1);
  Values values;
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < 2 * batch.size; ++i) {
    const double value = normal(random);
    values.push_back(value);
    if (i % 2 == 0) sum += value - 1000, squares += (value - 1000) * (value - 1000);
  }
  const double count = static_cast<double>(batch.size), mean = sum / count;
  const auto results = evaluate(graph, {n.mean, n.variance}, {{"x", values}});
  EXPECT_NEAR(results[0][0], 1000 + mean, 1e-4);
  EXPECT_NEAR(results[1][0], squares / count - mean * mean, 1e-6);
}

TEST(StatisticsNorm, IsTheSameOnEveryLayout) {
  Graph graph;
  const Dimension batch{"batch", 8}, rows{"rows", 4}, group{"group", 2}, channels{"channels", 4};
  const Shape shape{batch, rows, group, channels};
  const Tensor x = graph.input("x", shape), dy = graph.input("dy", shape);
  const Tensor scale = graph.input("scale", {group, channels}), bias = graph.input("bias", {group, channels});
  const std::pair<std::string, Shape> kinds[] = {
      {"batch", {group, channels}}, {"group", {batch, group}}, {"instance", {batch, group, channels}}};
  for (const auto& [name, statistics] : kinds) {
    const Normalized n = normalize(x, statistics, scale, bias, 1e-5);
    graph.set_output(name + "_y", n.y);
    graph.set_output(name + "_mean", n.mean);
    graph.set_output(name + "_variance", n.variance);
    const Tensors d = gradients({n.y}, {x, scale, bias}, {dy});
    for (size_t i = 0; i < d.size(); ++i) graph.set_output(name + "_d" + std::to_string(i), d[i]);
  }
  std::mt19937 random(3);
  std::uniform_real_distribution<double> uniform(-1, 3);
  std::map<std::string, Values> feeds;
  for (const auto& [name, tensor] : {std::pair("x", x), {"dy", dy}, {"scale", scale}, {"bias", bias}}) {
    for (int64_t i = 0; i < tensor.shape().size(); ++i) feeds[name].push_back(uniform(random));
  }
  const MeshRun one = run_on_mesh(graph, Layouts::single(), feeds);
  for (const auto& [mesh, layout] :
       std::vector<std::pair<std::string, std::string>>{{"a:2", "batch:a"},
                                                        {"a:8", "batch:a"},
                                                        {"a:4", "rows:a"},
                                                        {"a:2;b:2", "batch:a;rows:b"},
                                                        {"a:2;b:2", "group:a;channels:b"},
                                                        {"a:2;b:2", "rows:a;channels:b"}}) {
    const MeshRun run = run_on_mesh(graph, layouts(mesh, layout), feeds);
    for (const auto& [name, values] : one.outputs)
      expect_close(name + " by " + layout, run.outputs.at(name), values, 3e-6, 1e-6);
  }
}

}  // namespace
}  // namespace mtf::testing
