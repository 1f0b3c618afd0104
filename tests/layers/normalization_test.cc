#include "layers/normalization.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/layers/yaml_layers.h"
#include "tests/support/golden.h"

namespace mtf::testing {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

TEST(LayerNorm, AgreesWithTheReference) {
  GoldenCase golden(MTF_SOURCE_DIR "/tests/golden/01_core_layer_norm");
  Graph graph;
  Context context(graph, Mode::kTrain, {}, {"b", 2});
  const Tensor x = golden.input(graph, "x");
  for (const std::string& name : golden.names("weight/")) golden.weight(graph, name);
  const auto scope = graph.scope("layer_prepostprocess/layer_norm");
  golden.expect(graph, {{"y", layer_norm(context, x, "d_model")}});
}

TEST(RmsNorm, AgreesWithTheReference) {
  GoldenCase golden(MTF_SOURCE_DIR "/tests/golden/01_core_rms_norm");
  Graph graph;
  Context context(graph, Mode::kTrain, {}, {"b", 2});
  const Tensor x = golden.input(graph, "x");
  for (const std::string& name : golden.names("weight/")) golden.weight(graph, name);
  const auto scope = graph.scope("rms_norm");
  golden.expect(graph, {{"y", rms_norm(context, x, "d_model")}});
}

TEST(LayerNorm, NormalisesWhatTheLayerBeforeMade) {
  const YamlLayers net("[dense: {output: {h: 3}, over: cols}, layer_norm, rms_norm: {over: rows}]",
                       {{"batch", 1}, {"rows", 2}, {"cols", 2}});
  EXPECT_EQ(net.y.shape(), (Shape{{"batch", 1}, {"rows", 2}, {"h", 3}}));
  EXPECT_THAT(net.variables(), ElementsAre("dense/kernel [cols=2, h=3]", "dense/bias [h=3]",
                                           "layer_norm/layer_norm_scale [h=3]",
                                           "layer_norm/layer_norm_bias [h=3]", "rms_norm/scale [rows=2]"));
}

TEST(LayerNorm, HasTheValuesOfTheFormula) {
  const YamlLayers net("[layer_norm]", {{"batch", 1}, {"d", 3}});
  EXPECT_THAT(net.evaluate({1, 2, 4}, {{"layer_norm/layer_norm_scale", {1, 1, 1}}}),
              Pointwise(DoubleNear(1e-5), Values{-1.069045, -0.267261, 1.336306}));
}

TEST(LayerNorm, HasNoBiasWhereNoneIsWanted) {
  const YamlLayers net("[layer_norm: {bias: false}]", {{"batch", 1}, {"d", 3}});
  EXPECT_THAT(net.variables(), ElementsAre("layer_norm/layer_norm_scale [d=3]"));
  EXPECT_THAT(net.evaluate({1, 2, 4}, {{"layer_norm/layer_norm_scale", {1, 1, -2}}}),
              Pointwise(DoubleNear(1e-5), Values{-1.069045, -0.267261, -2.672612}));
}

TEST(LayerNorm, AsksWhichOfSeveralDimensionsIsMeant) {
  EXPECT_THAT(
      error_of("[layer_norm]", {{"batch", 1}, {"rows", 2}, {"cols", 3}}),
      HasSubstr(
          "layers.yaml:1:2: which dimension of [rows=2, cols=3] is to be normalised?; name it: `over`"));
}

}  // namespace
}  // namespace mtf::testing
