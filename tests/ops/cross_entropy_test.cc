#include "engine/ops/cross_entropy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/base/error.h"
#include "engine/graph/gradients.h"
#include "engine/ops/indexing.h"
#include "tests/support/evaluate_tensors.h"
#include "tests/support/golden.h"

namespace mtf::testing {
namespace {

const Dimension vocab{"vocab", 3};

TEST(CrossEntropy, HasTheRecordedValuesAndGradients) {
  GoldenCase golden(MTF_SOURCE_DIR "/tests/golden/01_core_cross_entropy");
  Graph graph;
  const Tensor logits = golden.input(graph, "logits"), targets = golden.input(graph, "targets");
  const auto loss = [&](double z_loss, double smoothing) {
    return softmax_cross_entropy(logits, targets, "v", {.z_loss = z_loss, .label_smoothing = smoothing}).loss;
  };
  golden.expect(graph, {{"hard", loss(0, 0)},
                        {"hard_z", loss(1e-4, 0)},
                        {"smooth", loss(0, 0.1)},
                        {"smooth_z", loss(1e-4, 0.1)},
                        {"sigmoid", sigmoid_cross_entropy(logits, golden.input(graph, "sig_targets"))}});
}

TEST(CrossEntropy, SoftTargetsGiveWhatLabelSmoothingGives) {
  GoldenCase golden(MTF_SOURCE_DIR "/tests/golden/01_core_cross_entropy");
  Graph graph;
  const Tensor logits = golden.input(graph, "logits"), ids = golden.input(graph, "targets");
  const Dimension v = logits.shape().dimension("v");
  const double off = 0.1 / static_cast<double>(v.size);
  const Tensor targets = one_hot(ids, v, 0.9 + off, off);
  const Tensor loss = softmax_cross_entropy(logits, targets, "v", {.z_loss = 1e-4}).loss;
  const Tensor dx = gradients({loss}, {logits}, {golden.input(graph, "ct_smooth_z")})[0];
  std::map<std::string, Values> feeds;
  for (const char* name : {"logits", "targets", "ct_smooth_z"})
    feeds[name] = golden.at(std::string("input/") + name).values;
  const auto results = evaluate(graph, {loss, dx}, feeds);
  expect_close("loss", results[0], golden.at("output/smooth_z").values, 1e-5);
  expect_close("gradient", results[1], golden.at("output/vjp/smooth_z/logits").values, 1e-4);
}

TEST(CrossEntropy, AddsTheSquareOfLogZ) {
  Graph graph;
  const Tensor x = graph.input("x", {vocab}), target = graph.input("target", {}, DType::kInt32);
  const auto loss = [&](double z_loss) {
    return softmax_cross_entropy(x, target, "vocab", {.z_loss = z_loss}).loss;
  };
  const auto values = evaluate(graph, {loss(0), loss(1e-4), loss(0.1)}, {{"x", {1, 2, 3}}, {"target", {2}}});
  EXPECT_NEAR(values[0][0], 0.407606, 1e-6);
  EXPECT_NEAR(values[1][0], 0.408767, 1e-6);
  EXPECT_NEAR(values[2][0], 1.568784, 1e-6);
}

TEST(CrossEntropy, LargeLogitsWhoseSquareOverflowsHaveALoss) {
  Graph graph;
  const Tensor x = graph.input("x", {vocab}), target = graph.input("target", {}, DType::kInt32);
  const CrossEntropy e = softmax_cross_entropy(x, target, "vocab");
  const Tensor dx = gradients({e.loss}, {x})[0];
  const auto values = evaluate(graph, {e.loss, dx}, {{"x", {1e20, -3e20, 0}}, {"target", {2}}});
  EXPECT_NEAR(values[0][0], 1e20, 1e14);
  EXPECT_EQ(values[1], (Values{1, 0, -1}));
}

TEST(CrossEntropy, AnIdOutOfRangeAddsNoTargetTerm) {
  Graph graph;
  const Tensor x = graph.input("x", {{"b", 2}, vocab}),
               targets = graph.input("targets", {{"b", 2}}, DType::kInt32);
  const CrossEntropy e = softmax_cross_entropy(x, targets, "vocab");
  const Tensor dx = gradients({e.loss}, {x})[0];
  const auto values =
      evaluate(graph, {e.loss, dx, e.log_z}, {{"x", {1, 2, 3, 1, 2, 3}}, {"targets", {-1, 3}}});
  EXPECT_EQ(values[0], (Values{0, 0}));
  EXPECT_EQ(values[1], Values(6, 0.0));
  EXPECT_NEAR(values[2][0], 3.407606, 1e-6);
}

TEST(CrossEntropy, OfBFloat16LogitsIsFloat32) {
  Graph graph;
  const Tensor x = graph.input("x", {vocab, {"b", 1}}, DType::kBFloat16);
  const CrossEntropy e = softmax_cross_entropy(x, graph.input("t", {{"b", 1}}, DType::kInt32), "vocab");
  EXPECT_EQ(e.loss.dtype(), DType::kFloat32);
  const Tensor dx = gradients({e.loss}, {x})[0];
  EXPECT_EQ(dx.dtype(), DType::kBFloat16);
  const auto values = evaluate(graph, {e.loss, dx}, {{"x", {1, 2, 3}}, {"t", {2}}});
  EXPECT_NEAR(values[0][0], 0.407606, 1e-6);
  expect_close("gradient", values[1], {0.0900306, 0.2447285, -0.3347591}, 5e-3);
}

TEST(CrossEntropy, ReportsTargetsThatDoNotFit) {
  Graph graph;
  const Tensor x = graph.input("x", {{"b", 2}, vocab});
  EXPECT_THROW(softmax_cross_entropy(x, graph.input("a", {vocab}, DType::kInt32), "vocab"), Error);
  EXPECT_THROW(softmax_cross_entropy(x, graph.input("b", {{"b", 2}}), "vocab"), Error);
  EXPECT_THROW(softmax_cross_entropy(x, graph.input("c", {{"b", 2}}, DType::kInt32), "words"), Error);
  EXPECT_THROW(
      softmax_cross_entropy(x, graph.input("d", {vocab, {"b", 2}}), "vocab", {.label_smoothing = 0.1}),
      Error);
  EXPECT_THROW(sigmoid_cross_entropy(x, graph.input("e", {vocab})), Error);
}

}  // namespace
}  // namespace mtf::testing
