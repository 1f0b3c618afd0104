#include "layers/dense.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/ops/binary.h"
#include "tests/layers/yaml_layers.h"
#include "tests/support/golden.h"

namespace mtf::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Shape kImage = {{"batch", 2}, {"rows", 2}, {"cols", 3}};

TEST(Dense, AgreesWithTheReferenceInValuesAndGradients) {
  GoldenCase golden(MTF_SOURCE_DIR "/tests/golden/01_core_dense");
  Graph graph;
  Context context(graph, Mode::kTrain, {}, {"b", 2});
  const Tensor x = golden.input(graph, "x");
  for (const std::string& name : golden.names("weight/")) golden.weight(graph, name);
  const Shape d{{"d", 4}}, f{{"f", 6}}, h{{"h", 4}};
  golden.expect(graph, {{"dense", dense(context, "d1", x, f, {.over = d, .activation = Activation::kRelu})},
                        {"dense_two", dense(context, "d2", x, f, {.over = h + d, .bias = false})},
                        {"dense_same_dim", dense(context, "d3", x, d)},
                        {"expert", dense(context, "d4", x, f, {.over = d, .experts = h})},
                        {"geglu", dense_product(context, "wi", x, f, {Activation::kGelu, Activation::kLinear},
                                                {.over = d, .bias = false})}});
}

TEST(Dense, ContractsAllButTheBatchAtFirstThenWhatTheLayerBeforeMade) {
  const YamlLayers net(
      "[dense: {output: {hidden: 4}}, activation: relu, dropout: 0.1, dense: {output: {classes: 5}}]",
      kImage);
  EXPECT_EQ(net.y.shape(), (Shape{{"batch", 2}, {"classes", 5}}));
  EXPECT_THAT(net.variables(),
              ElementsAre("dense/kernel [rows=2, cols=3, hidden=4]", "dense/bias [hidden=4]",
                          "dense_1/kernel [hidden=4, classes=5]", "dense_1/bias [classes=5]"));
}

TEST(Dense, KeepsTheDimensionsThatOverLeaves) {
  const YamlLayers net("[dense: {output: {a: 4, b: 5}, over: cols, bias: false}, dense: {output: {c: 6}}]",
                       kImage);
  EXPECT_EQ(net.y.shape(), (Shape{{"batch", 2}, {"rows", 2}, {"c", 6}}));
  EXPECT_THAT(net.variables(), ElementsAre("dense/kernel [cols=3, a=4, b=5]",
                                           "dense_1/kernel [a=4, b=5, c=6]", "dense_1/bias [c=6]"));
}

TEST(Dense, GivesTheKernelALeadingUnderscoreWhereNamesRepeat) {
  const YamlLayers net("[dense: {output: {cols: 7}, over: cols}]", kImage);
  EXPECT_EQ(net.y.shape(), (Shape{{"batch", 2}, {"rows", 2}, {"cols", 7}}));
  EXPECT_THAT(net.variables(), ElementsAre("dense/kernel [_cols=3, cols=7]", "dense/bias [cols=7]"));
}

TEST(Dense, ComputesActivationOfProductPlusBias) {
  const YamlLayers net("[dense: {name: a, output: {h: 2}, activation: relu}]", {{"batch", 1}, {"p", 2}});
  EXPECT_EQ(net.evaluate({1, 2}, {{"a/kernel", {1, -1, 2, -2}}, {"a/bias", {0.5, 1}}}), (Values{5.5, 0}));
}

TEST(Dense, MultipliesTheResultsOfSeveralActivations) {
  const YamlLayers net("[dense: {name: a, output: {h: 1}, activation: [linear, relu], bias: false}]",
                       {{"batch", 1}, {"p", 2}});
  EXPECT_THAT(net.variables(), ElementsAre("a/wi_0/kernel [p=2, h=1]", "a/wi_1/kernel [p=2, h=1]"));
  EXPECT_EQ(net.evaluate({1, 2}, {{"a/wi_0/kernel", {-1, -1}}, {"a/wi_1/kernel", {2, 1}}}), (Values{-12}));
}

TEST(Dense, TakesInitialValuesByVarianceScalingUnlessToldOtherwise) {
  const auto kernel = [](const std::string& options) {
    const YamlLayers net("[dense: {output: {h: 4}" + options + "}]", kImage);
    return net.graph.find_variable("dense/kernel")->initializer;
  };
  EXPECT_EQ(kernel(""), Initializer::truncated_normal(std::sqrt(1.0 / 6)));
  EXPECT_EQ(kernel(", kernel_initializer: glorot_uniform"), Initializer::uniform(std::sqrt(6.0 / 10)));
  EXPECT_EQ(kernel(", kernel_initializer: {type: normal, stddev: 0.02}"), Initializer::normal(0.02));
  EXPECT_EQ(
      kernel(
          ", kernel_initializer: {type: variance_scaling, scale: 3, mode: fan_avg, distribution: uniform}"),
      Initializer::uniform(std::sqrt(3 * (3.0 / 5))));
  EXPECT_EQ(kernel(", kernel_initializer: {type: truncated_normal, stddev: 0.5}"),
            Initializer::truncated_normal(0.5));
  EXPECT_EQ(kernel(", kernel_initializer: {type: uniform, limit: 0.5}"), Initializer::uniform(0.5));
  EXPECT_EQ(kernel(", kernel_initializer: {type: constant, value: 3}"), Initializer::constant(3));
  EXPECT_EQ(kernel(", kernel_initializer: zeros"), Initializer::zeros());
  EXPECT_EQ(kernel(", kernel_initializer: ones"), Initializer::ones());
}

TEST(Dense, SaysWhatIsWrongAndWhere) {
  EXPECT_THAT(error_of("[activation: relu, dense: {output: {h: 4}, over: colz}]", kImage),
              ::testing::AllOf(
                  HasSubstr("layers.yaml:1:50: there is no dimension `colz` in [batch=2, rows=2, cols=3]"),
                  HasSubstr("did you mean `cols`?")));
  EXPECT_THAT(
      error_of("[dense: {output: {rows: 4}, over: cols}]", kImage),
      HasSubstr("layers.yaml:1:2: dense: output dimension `rows` is one of [batch=2, rows=2, cols=3] that is "
                "not contracted; put it into `over`"));
  EXPECT_THAT(error_of("[dense: {name: a, output: {h: 4}}, dense: {name: a, output: {h: 5}}]", kImage),
              HasSubstr("variable `a/kernel` exists"));
}

TEST(Dense, NeedsAFunction) {
  EXPECT_THAT(problems_of("[dense: {output: {h: 4}, activation: []}]"),
              HasSubstr("layers.yaml:1:38: a layer without a function has no result; `linear` for none"));
  EXPECT_THAT(problems_of("[DenseReluDense: {activation: []}]"), HasSubstr("without a function"));
}

TEST(Dense, SharesWeightsBetweenLayersOfOneName) {
  const YamlLayers net("[dense: {name: a, output: {h: 6}, over: h}, dense: {name: a, output: {h: 6}}]",
                       {{"batch", 2}, {"h", 6}});
  EXPECT_THAT(net.variables(), ElementsAre("a/kernel [_h=6, h=6]", "a/bias [h=6]"));
}

}  // namespace
}  // namespace mtf::testing
