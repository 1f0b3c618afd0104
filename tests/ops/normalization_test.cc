#include "engine/ops/normalization.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/base/error.h"
#include "engine/graph/gradients.h"
#include "tests/support/evaluate_tensors.h"
#include "tests/support/golden.h"

namespace mtf::testing {
namespace {

TEST(LayerNorm, HasTheRecordedValuesAndGradients) {
  GoldenCase golden(MTF_SOURCE_DIR "/tests/golden/01_core_layer_norm");
  Graph graph;
  const std::string scope = "layer_prepostprocess/layer_norm/layer_norm_";
  golden.expect(graph,
                {{"y", layer_norm(golden.input(graph, "x"), "d_model", golden.weight(graph, scope + "scale"),
                                  golden.weight(graph, scope + "bias"))}});
}

TEST(RmsNorm, HasTheRecordedValuesAndGradients) {
  GoldenCase golden(MTF_SOURCE_DIR "/tests/golden/01_core_rms_norm");
  Graph graph;
  golden.expect(
      graph, {{"y", rms_norm(golden.input(graph, "x"), "d_model", golden.weight(graph, "rms_norm/scale"))}});
}

TEST(LayerNorm, NormalisesAnyDimension) {
  Graph graph;
  const Tensor x = graph.input("x", {{"d", 2}, {"b", 2}});
  const Tensor y = layer_norm(x, "d", graph.input("scale", {{"d", 2}}), graph.input("bias", {{"d", 2}}), 0);
  expect_close("y", evaluate(graph, {y}, {{"x", {1, 5, 3, 1}}, {"scale", {1, 2}}, {"bias", {0, 10}}})[0],
               {-1, 1, 12, 8}, 1e-6);
}

TEST(RmsNorm, RoundsOnceInBFloat16) {
  Graph graph;
  const Tensor x = graph.input("x", {{"d", 4}}, DType::kBFloat16);
  const Tensor y = rms_norm(x, "d", graph.input("scale", {{"d", 4}}, DType::kBFloat16), 0);
  const Values values = evaluate(graph, {y}, {{"x", {1, 2, 3, 4}}, {"scale", {1, 1, 1, 1}}})[0];
  const double rms = std::sqrt(30.0 / 4);
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(values[i], static_cast<float>(BFloat16(static_cast<float>((i + 1) / rms))));
}

TEST(LayerNorm, SumsParameterGradientsOfManyRowsAccurately) {
  Graph graph;
  const Dimension rows{"rows", 5000}, d{"d", 2};
  const Tensor x = graph.input("x", {rows, d}), scale = graph.input("scale", {d}),
               bias = graph.input("bias", {d});
  const Tensors dx = gradients({layer_norm(x, "d", scale, bias, 0)}, {scale, bias});
  Values values(10000);
  for (int i = 0; i < 5000; ++i) values[2 * i] = 0, values[2 * i + 1] = 1 + i % 7;
  const auto results = evaluate(graph, dx, {{"x", values}, {"scale", {1, 1}}, {"bias", {0, 0}}});
  expect_close("scale", results[0], {-5000, 5000}, 1e-6);
  expect_close("bias", results[1], {5000, 5000}, 1e-6);
}

TEST(LayerNorm, ReportsParametersThatDoNotFit) {
  Graph graph;
  const Tensor x = graph.input("x", {{"b", 2}, {"d", 4}}), d = graph.input("d", {{"d", 4}});
  EXPECT_THROW(layer_norm(x, "d", d, graph.input("b", {{"b", 2}})), Error);
  EXPECT_THROW(layer_norm(x, "e", d, d), Error);
  EXPECT_THROW(rms_norm(x, "d", graph.input("half", {{"d", 4}}, DType::kBFloat16)), Error);
}

}  // namespace
}  // namespace mtf::testing
