// Layers that move windows over space.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "engine/graph/gradients.h"
#include "tests/layers/yaml_layers.h"

namespace mtf::testing {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

const Shape kGrey{{"batch", 2}, {"rows", 4}, {"cols", 6}};
const Shape kColoured{{"batch", 2}, {"rows", 4}, {"cols", 6}, {"channels", 4}};

TEST(ConvolutionLayers, TakeImagesWithAndWithoutChannels) {
  const YamlLayers grey(
      "[conv2d: {output: {f: 3}}, conv2d: {output: {f: 2}, kernel: {rows: 1, cols: 5}, stride: 2}]", kGrey);
  EXPECT_EQ(grey.y.shape(), (Shape{{"batch", 2}, {"rows", 2}, {"cols", 3}, {"f", 2}}));
  EXPECT_THAT(
      grey.variables(),
      ElementsAre("conv2d/kernel [kernel_rows=3, kernel_cols=3, f=3]", "conv2d/bias [f=3]",
                  "conv2d_1/kernel [kernel_rows=1, kernel_cols=5, _f=3, f=2]", "conv2d_1/bias [f=2]"));
  const YamlLayers coloured("[conv2d: {output: {f: 3}, bias: false, padding: valid}]", kColoured);
  EXPECT_EQ(coloured.y.shape(), (Shape{{"batch", 2}, {"rows", 2}, {"cols", 4}, {"f", 3}}));
  EXPECT_THAT(coloured.variables(),
              ElementsAre("conv2d/kernel [kernel_rows=3, kernel_cols=3, channels=4, f=3]"));
  const YamlLayers line("[conv1d: {output: {f: 3}, over: [rows, channels], padding: {cols: [2, 0]}}]",
                        kColoured);
  EXPECT_EQ(line.y.shape(), (Shape{{"batch", 2}, {"cols", 6}, {"f", 3}}));
}

TEST(ConvolutionLayers, DivideChannelsIntoGroups) {
  const YamlLayers net("[conv2d: {output: {f: 6}, groups: 2, kernel: 1, bias: false}]",
                       {{"batch", 1}, {"rows", 1}, {"cols", 1}, {"channels", 4}});
  EXPECT_THAT(net.variables(), ElementsAre("conv2d/kernel [kernel_rows=1, kernel_cols=1, channels=2, f=6]"));
  // Outputs 0, 1, 2 are made of channels 0 and 1, the others of channels 2 and 3.
  const Values y =
      net.evaluate({1, 10, 100, 1000}, {{"conv2d/kernel", {1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5}}});
  EXPECT_EQ(y, (Values{1, 12, 23, 3400, 4500, 5600}));
}

TEST(ConvolutionLayers, DivideChannelsIntoGroupsWhereverTheyStand) {
  const YamlLayers net("[conv2d: {output: {f: 6}, groups: 2, kernel: 1, bias: false}]",
                       {{"batch", 1}, {"channels", 4}, {"rows", 1}, {"cols", 2}});
  EXPECT_EQ(net.y.shape(), (Shape{{"batch", 1}, {"rows", 1}, {"cols", 2}, {"f", 6}}));
  const Values y = net.evaluate({1, 2, 10, 20, 100, 200, 1000, 2000},
                                {{"conv2d/kernel", {1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5}}});
  EXPECT_EQ(y, (Values{1, 12, 23, 3400, 4500, 5600, 2, 24, 46, 6800, 9000, 11200}));
}

TEST(ConvolutionLayers, ConvolveEachChannelByItself) {
  const YamlLayers net("[depthwise_conv1d: {kernel: 2, padding: valid, activation: relu}]",
                       {{"batch", 1}, {"n", 3}, {"channels", 2}});
  EXPECT_THAT(net.variables(), ElementsAre("depthwise_conv1d/kernel [kernel_n=2, channels=2]",
                                           "depthwise_conv1d/bias [channels=2]"));
  EXPECT_EQ(net.evaluate({1, 2, 3, 4, 5, 6}, {{"depthwise_conv1d/kernel", {1, 10, 2, -20}},
                                              {"depthwise_conv1d/bias", {0.5, 100}}}),
            (Values{7.5, 40, 13.5, 20}));
}

TEST(ConvolutionLayers, GrowWhenTransposed) {
  const YamlLayers net("[conv2d_transpose: {output: {f: 3}, kernel: 3, stride: 2, extra: {rows: 1}}]",
                       kColoured);
  EXPECT_EQ(net.y.shape(), (Shape{{"batch", 2}, {"rows", 9}, {"cols", 12}, {"f", 3}}));
  EXPECT_THAT(net.variables(),
              ElementsAre("conv2d_transpose/kernel [kernel_rows=3, kernel_cols=3, f=3, channels=4]",
                          "conv2d_transpose/bias [f=3]"));
  const YamlLayers none("[conv2d_transpose: {output: {f: 3}, stride: 2, extra: {rows: 1, cols: 0}}]",
                        kColoured);
  EXPECT_EQ(none.y.shape(), net.y.shape());
}

TEST(ConvolutionLayers, SayWhatDoesNotFit) {
  EXPECT_THAT(error_of("[conv3d: {output: {f: 2}}]", kColoured),
              HasSubstr("conv3d: which 3 dimensions of [batch=2, rows=4, cols=6, channels=4] do windows move "
                        "along? Without "
                        "batch and channels there are [rows=4, cols=6]; name them: `along`"));
  EXPECT_THAT(error_of("[conv2d: {output: {rows: 2}}]", kColoured),
              HasSubstr("conv2d: output dimension `rows` is one of [batch=2, rows=4, cols=6, channels=4] "
                        "that is not contracted"));
  EXPECT_THAT(error_of("[conv2d: {output: {f: 2}, kernel: {row: 2}}]", kColoured),
              HasSubstr("conv2d: `size` is for dimension `row`, but windows move along [rows=4, cols=6]"));
  EXPECT_THAT(error_of("[conv2d_transpose: {output: {f: 2}, extra: {row: 1}}]", kColoured),
              HasSubstr("conv2d_transpose: `extra` is for dimension `row`, but windows move along [rows=4, "
                        "cols=6]; numbers for these dimensions"));
  EXPECT_THAT(error_of("[conv2d: {output: {f: 3}, groups: 2}]", kColoured),
              HasSubstr("conv2d: 2 groups of the channels [channels=4] and the output [f=3]"));
  EXPECT_THAT(error_of("[conv2d: {output: {f: 3}, kernel: 9, padding: valid}]", kColoured),
              HasSubstr("no window of 9 entries fits into `rows` = 4"));
  EXPECT_THAT(problems_of("[conv2d: {output: {f: 3}, kernel: 0}]"), HasSubstr("0 is too small; at least 1"));
  EXPECT_THAT(problems_of("[conv2d: {output: {f: 3}, padding: {rows: [1, 2, 3]}}]"),
              HasSubstr("`rows` has 3 numbers; one for both sides, or two: before and after"));
  EXPECT_THAT(error_of("[batch_norm]", kGrey),
              HasSubstr("batch_norm: which dimensions of [batch=2, rows=4, cols=6] are channels?"));
}

TEST(PoolLayers, ReduceWindows) {
  const Shape shape{{"batch", 1}, {"rows", 2}, {"cols", 4}};
  const Values x{1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(YamlLayers("[max_pool: 2]", shape).evaluate(x), (Values{6, 8}));
  EXPECT_EQ(
      YamlLayers("[average_pool: {size: {rows: 1, cols: 3}, stride: 1, padding: same}]", shape).evaluate(x),
      (Values{1.5, 2, 3, 3.5, 5.5, 6, 7, 7.5}));
  EXPECT_EQ(YamlLayers("[global_average_pool]", shape).evaluate(x), (Values{4.5}));
  const YamlLayers largest("[global_max_pool: cols]", shape);
  EXPECT_EQ(largest.evaluate(x), (Values{4, 8}));
  const Tensor slope = gradients({largest.y}, {largest.x})[0];
  EXPECT_EQ(evaluate(largest.graph, {slope}, {{"x", {3, 3, 1, 3, 0, 5, 5, 0}}})[0],
            (Values{1 / 3.0F, 1 / 3.0F, 0, 1 / 3.0F, 0, 0.5, 0.5, 0}));
}

/// Values of PyTorch's interpolate(scale_factor=.., mode="linear", align_corners=False).
TEST(Upsample, RepeatsOrInterpolates) {
  const Shape shape{{"batch", 1}, {"n", 3}};
  EXPECT_EQ(YamlLayers("[upsample: 2]", shape).evaluate({1, 5, 3}), (Values{1, 1, 5, 5, 3, 3}));
  EXPECT_THAT(YamlLayers("[upsample: {factor: 2, method: linear}]", shape).evaluate({1, 5, 3}),
              Pointwise(DoubleNear(1e-6), Values{1, 2, 4, 4.5, 3.5, 3}));
  EXPECT_THAT(YamlLayers("[upsample: {factor: 3, method: linear}]", shape).evaluate({1, 5, 3}),
              Pointwise(DoubleNear(1e-5), Values{1, 1, 2.333333, 3.666667, 5, 4.333333, 3.666667, 3, 3}));
}

TEST(PixelShuffle, PutsChannelsBesideEachOther) {
  const YamlLayers net("[pixel_shuffle: 2]", {{"batch", 1}, {"rows", 1}, {"cols", 2}, {"channels", 8}});
  Values x(16);
  std::iota(x.begin(), x.end(), 0);
  EXPECT_EQ(net.y.shape(), (Shape{{"batch", 1}, {"rows", 2}, {"cols", 4}, {"channels", 2}}));
  EXPECT_EQ(net.evaluate(x), (Values{0, 4, 1, 5, 8, 12, 9, 13, 2, 6, 3, 7, 10, 14, 11, 15}));
}

TEST(Patches, AreRowsOfTokens) {
  const YamlLayers net("[patches: {size: {rows: 2, cols: 1}}]",
                       {{"batch", 1}, {"rows", 4}, {"cols", 2}, {"channels", 2}});
  Values x(16);
  std::iota(x.begin(), x.end(), 0);
  EXPECT_EQ(net.y.shape(), (Shape{{"batch", 1}, {"length", 4}, {"patch", 4}}));
  EXPECT_EQ(net.evaluate(x), (Values{0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15}));
  EXPECT_THAT(error_of("[patches: 3]", kGrey), HasSubstr("patches: rows=4 cannot be cut into parts of 3"));
}

TEST(LocalResponseNorm, HasTheValuesOfTheFormula) {
  const YamlLayers net("[local_response_norm: {size: 3, alpha: 0.5, beta: 0.75, bias: 2}]",
                       {{"batch", 1}, {"channels", 4}});
  const Values x{1, 2, 3, 4};
  const double sums[] = {1 + 4, 1 + 4 + 9, 4 + 9 + 16, 9 + 16};
  Values expected;
  for (size_t i = 0; i < 4; ++i) expected.push_back(x[i] * std::pow(2 + 0.5 * sums[i], -0.75));
  EXPECT_THAT(net.evaluate(x), Pointwise(DoubleNear(1e-6), expected));
}

TEST(BatchNorm, NormalisesByTheBatchAndRemembersItsStatistics) {
  const YamlLayers net("[batch_norm: {epsilon: 0, momentum: 0.75}]",
                       {{"batch", 2}, {"cols", 2}, {"channels", 2}});
  EXPECT_THAT(net.variables(),
              ElementsAre("batch_norm/scale [channels=2]", "batch_norm/bias [channels=2]",
                          "batch_norm/mean [channels=2]", "batch_norm/variance [channels=2]"));
  EXPECT_THAT(
      net.evaluate({1, 10, 3, 10, 5, 30, 7, 30}, {{"batch_norm/scale", {1, 2}}, {"batch_norm/bias", {0, 1}}}),
      Pointwise(DoubleNear(1e-5), Values{-1.341641, -1, -0.447214, -1, 0.447214, 3, 1.341641, 3}));
}

TEST(BatchNorm, UsesTheRunningStatisticsInEvaluation) {
  const YamlLayers net("[batch_norm: {epsilon: 0}]", {{"batch", 2}, {"channels", 1}},
                       {.mode = Mode::kEvaluate});
  EXPECT_THAT(net.evaluate({3, 7}, {{"batch_norm/scale", {2}},
                                    {"batch_norm/bias", {1}},
                                    {"batch_norm/mean", {1}},
                                    {"batch_norm/variance", {4}}}),
              Pointwise(DoubleNear(1e-6), Values{3, 7}));
}

TEST(GroupNorm, NormalisesTheChannelsOfAGroup) {
  const YamlLayers net("[group_norm: {groups: 2, epsilon: 0}]", {{"batch", 1}, {"cols", 2}, {"channels", 4}});
  const Values y = net.evaluate({1, 3, 10, 10, 5, 7, 30, 30},
                                {{"group_norm/scale", {1, 1, 1, 2}}, {"group_norm/bias", {0, 0, 0, 1}}});
  EXPECT_THAT(y, Pointwise(DoubleNear(1e-5), Values{-1.341641, -0.447214, -1, -1, 0.447214, 1.341641, 1, 3}));
}

TEST(InstanceNorm, NormalisesEachChannelOfEachExample) {
  const YamlLayers net("[instance_norm: {epsilon: 0}]", {{"batch", 2}, {"cols", 2}, {"channels", 2}});
  const Values y = net.evaluate({1, 10, 3, 30, 5, 0, 9, 4},
                                {{"instance_norm/scale", {1, 1}}, {"instance_norm/bias", {0, 0}}});
  EXPECT_THAT(y, Pointwise(DoubleNear(1e-5), Values{-1, -1, 1, 1, -1, -1, 1, 1}));
}

TEST(Residual, HasAShortcut) {
  const YamlLayers net(
      "[residual: {layers: [dense: {output: {h: 2}}], shortcut: [dense: {output: {h: 2}, bias: false}]}]",
      {{"batch", 1}, {"d", 3}});
  EXPECT_THAT(net.variables(), ElementsAre("residual/dense/kernel [d=3, h=2]", "residual/dense/bias [h=2]",
                                           "residual/shortcut/dense/kernel [d=3, h=2]"));
}

TEST(Residual, LeavesLayersOutForSomeExamples) {
  // Each of many examples has the layer's result twice, or not at all.
  const std::string stack =
      "[dense: {output: {d: 1}, over: h, bias: false}, transformer: {num_layers: 1, block: [scale: 3], "
      "sublayers: {initial: [], per_layer: [call_layer, residual: {drop: 0.5}], final: []}}]";
  for (const std::string& list : {std::string("[residual: {layers: [scale: 3], drop: 0.5}]"), stack}) {
    const YamlLayers dropped(list, {{"batch", 100}, {"length", 2}, {"h", 1}});
    const Values y = dropped.evaluate(Values(200, 1.0), {{"dense/kernel", {1}}});
    int left_out = 0;
    for (size_t i = 0; i < 200; i += 2) {
      EXPECT_TRUE(y[i] == 1 || y[i] == 7) << y[i];
      EXPECT_EQ(y[i], y[i + 1]);
      left_out += y[i] == 1;
    }
    EXPECT_GT(left_out, 30);
    EXPECT_LT(left_out, 70);
  }
}

}  // namespace
}  // namespace mtf::testing
