// Tests layers that contain or join others (repeat, residual, branches, block, save, concat, add), and those
// that only rearrange.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/layers/yaml_layers.h"

namespace mtf::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Shape kRow = {{"batch", 1}, {"h", 2}};

TEST(RepeatLayer, GivesEachIterationWeightsOfItsOwn) {
  const YamlLayers net(
      "[repeat: {times: 2, layers: [dense: {output: {h: 2}, bias: false}, activation: relu]}]", kRow);
  EXPECT_THAT(net.variables(),
              ElementsAre("repeat/000/dense/kernel [_h=2, h=2]", "repeat/001/dense/kernel [_h=2, h=2]"));
  EXPECT_EQ(net.evaluate({1, 2}, {{"repeat/000/dense/kernel", {0, 1, 1, 0}},
                                  {"repeat/001/dense/kernel", {3, 0, 0, 4}}}),
            (Values{6, 4}));
}

TEST(RepeatLayer, CountsTheLayersInsideNotItself) {
  const YamlLayers net("[repeat: {times: 3, layers: [scale: 2]}]", kRow);
  EXPECT_EQ(net.y.operation().hints().layer, 2);
  EXPECT_EQ(net.y.operation().provenance().path(), "repeat/002/scale");
}

TEST(RepeatLayer, ZeroTimesIsNothing) {
  const YamlLayers net("[repeat: {times: 0, layers: [scale: 2]}]", kRow);
  EXPECT_EQ(net.y, net.x);
  EXPECT_THAT(problems_of("[repeat: {times: -1, layers: [scale: 2]}]"), HasSubstr("repeat.times"));
}

/// Returns the errors for which the layers of `list` are rejected.
std::string refusal_of(const std::string& list) {
  try {
    const YamlLayers net(list, kRow);
    return fmt::format("{} operations", net.graph.root().size());
  } catch (const Error& error) {
    return error.problems()[0].message + "; " + error.problems()[0].hint;
  }
}

TEST(RepeatLayer, IsRefusedAfterItsFirstCopyWhereAllWouldBeTooMany) {
  EXPECT_EQ(refusal_of("[repeat: {times: 60000, layers: [scale: 2, scale: 3]}]"),
            "`times: 60000` makes the model too large: each copy has 2 operations, and the forward pass of a "
            "model may have 100,000; at most 49999 here");
  EXPECT_EQ(
      refusal_of("[repeat: {times: 1000, layers: [repeat: {times: 1000, layers: [scale: 2]}]}]"),
      "`times: 1000` makes the model too large: each copy has 1,000 operations, and the forward pass of "
      "a model may have 100,000; at most 99 here");
  EXPECT_THAT(
      refusal_of("[repeat: {times: 5000, layers: [scale: 2]}, repeat: {times: 95000, layers: [scale: 2]}]"),
      HasSubstr("at most 94999 here"));
  EXPECT_EQ(
      refusal_of(
          "[dense: {output: {h: 15000000}, bias: false}, repeat: {times: 5000, layers: ["
          "dense: {output: {w: 15000000}, bias: false}, dense: {output: {h: 15000000}, bias: false}]}]"),
      "`times: 5000` makes the model too large: each copy has tensors of 4.5e+14 elements, and the forward "
      "pass of a model may have 1e+16; at most 22 here");
  EXPECT_THAT(
      refusal_of(
          "[dense: {output: {h: 15000000}, bias: false}, repeat: {times: 22, layers: ["
          "dense: {output: {w: 15000000}, bias: false}, dense: {output: {h: 15000000}, bias: false}]}]"),
      HasSubstr(" operations"));
  EXPECT_THAT(problems_of("[repeat: {times: 9000000000000000000, layers: []}]"), HasSubstr("repeat.times"));
}

TEST(RezeroLayer, HasAWeightOfItsOwn) {
  const YamlLayers net("[rezero: 2, rezero: 3, rezero: {name: w, initial_value: 5}]", kRow);
  EXPECT_THAT(net.variables(),
              ElementsAre("rezero_weight []", "rezero_1/rezero_weight []", "w/rezero_weight []"));
  EXPECT_EQ(net.evaluate({1, 2},
                         {{"rezero_weight", {2}}, {"rezero_1/rezero_weight", {3}}, {"w/rezero_weight", {5}}}),
            (Values{30, 60}));
}

TEST(LayerScaleLayer, HasAWeightForEachChannel) {
  const YamlLayers net("[layer_scale: 2, layer_scale: {name: w, initial_value: 3, over: [h]}]", kRow);
  EXPECT_THAT(net.variables(), ElementsAre("layer_scale/layer_scale [h=2]", "w/layer_scale [h=2]"));
  EXPECT_EQ(net.evaluate({1, 2}, {{"layer_scale/layer_scale", {2, 3}}, {"w/layer_scale", {5, 7}}}),
            (Values{10, 42}));
}

TEST(SliceLayer, TakesSomeEntries) {
  const Shape row{{"batch", 1}, {"length", 4}};
  EXPECT_EQ(YamlLayers("[slice: {along: length, begin: 1}]", row).evaluate({1, 2, 3, 4}), (Values{2, 3, 4}));
  EXPECT_EQ(YamlLayers("[slice: {along: length, begin: 1, end: 3}]", row).evaluate({1, 2, 3, 4}),
            (Values{2, 3}));
  EXPECT_THAT(error_of("[slice: {along: length, begin: 4}]", row),
              HasSubstr("slice: `length` = 4 has no entries from 4 to before 4"));
  EXPECT_THAT(error_of("[slice: {along: length, end: 5}]", row), HasSubstr("`end` at most 4"));
  EXPECT_THAT(error_of("[slice: {along: height}]", row), HasSubstr("there is no dimension `height`"));
}

TEST(RegisterTokensLayer, StandBeforeTheEntries) {
  const YamlLayers net("[dense: {output: {d: 1}, over: h, bias: false}, register_tokens: 2]",
                       {{"batch", 2}, {"length", 2}, {"h", 1}});
  EXPECT_EQ(net.y.shape(), (Shape{{"batch", 2}, {"length", 4}, {"d", 1}}));
  EXPECT_THAT(net.variables(),
              ElementsAre("dense/kernel [h=1, d=1]", "register_tokens/register_tokens [registers=2, d=1]"));
  EXPECT_EQ(net.evaluate({1, 2, 3, 4}, {{"dense/kernel", {10}}, {"register_tokens/register_tokens", {7, 8}}}),
            (Values{7, 8, 10, 20, 7, 8, 30, 40}));
}

TEST(ResidualLayer, AddsItsInput) {
  const YamlLayers net("[residual: {layers: [scale: 3, scale: 2]}]", kRow);
  EXPECT_EQ(net.evaluate({1, 2}), (Values{7, 14}));
  EXPECT_EQ(net.y.operation().hints().layer, 0);
}

TEST(ResidualLayer, RefusesLayersThatChangeTheShape) {
  EXPECT_THAT(error_of("[scale: 2, residual: {layers: [dense: {output: {k: 3}}]}]", kRow),
              HasSubstr("layers.yaml:1:12: residual: the layers make [batch=1, k=3] of [batch=1, h=2]"));
}

TEST(BranchesLayer, JoinsThePaths) {
  const YamlLayers net("[branches: {along: h, paths: [[scale: 2], [], [scale: 3, scale: 5]]}]", kRow);
  EXPECT_EQ(net.y.shape(), (Shape{{"batch", 1}, {"h", 6}}));
  EXPECT_EQ(net.evaluate({1, 2}), (Values{2, 4, 1, 2, 15, 30}));
}

TEST(BranchesLayer, MakesTheDimensionsThatItsPathsMake) {
  const YamlLayers net(
      "[branches: {along: k, paths: [[dense: {output: {k: 3}, over: cols}], [dense: {output: {k: 4}, over: "
      "cols}]]},"
      " dense: {output: {c: 5}, bias: false}]",
      {{"batch", 2}, {"rows", 2}, {"cols", 3}});
  EXPECT_EQ(net.y.shape(), (Shape{{"batch", 2}, {"rows", 2}, {"c", 5}}));
  EXPECT_THAT(net.variables(),
              ElementsAre("branches/path_0/dense/kernel [cols=3, k=3]", "branches/path_0/dense/bias [k=3]",
                          "branches/path_1/dense/kernel [cols=3, k=4]", "branches/path_1/dense/bias [k=4]",
                          "dense/kernel [k=7, c=5]"));
}

TEST(BranchesLayer, SaysWhatIsWrong) {
  EXPECT_THAT(problems_of("[branches: {along: h, paths: scale}]"),
              HasSubstr("`branches.paths` is not a list of paths"));
  EXPECT_THAT(error_of("[branches: {along: k, paths: [[scale: 2], []]}]", kRow),
              HasSubstr("layers.yaml:1:20: there is no dimension `k`"));
}

TEST(SaveLayer, KeepsATensorForConcatAndAdd) {
  const YamlLayers net("[save: start, scale: 10, add: start, concat: {with: start, along: h}]", kRow);
  EXPECT_EQ(net.evaluate({1, 2}), (Values{11, 22, 1, 2}));
  const YamlLayers spread("[save: v, dense: {name: d, output: {k: 2}, over: h, bias: false}]", kRow);
  EXPECT_EQ(spread.context.saved("v"), spread.x);
}

TEST(SaveLayer, NamesTheNearestSavedTensor) {
  EXPECT_THAT(
      error_of("[save: level_0, add: level_O]", kRow),
      HasSubstr("layers.yaml:1:22: no layer before this one saves `level_O`; did you mean `level_0`?"));
  EXPECT_THAT(error_of("[add: level_0]", kRow),
              HasSubstr("put `save: level_0` behind the layer that is meant"));
  EXPECT_THAT(error_of("[save: a, dense: {output: {k: 2}}, add: a]", kRow), HasSubstr("do not fit"));
}

TEST(BlockLayer, ReplacesItsArguments) {
  const YamlLayers net("[block: {use: fc, size: 3}, block: {use: fc, size: 4}]", kRow,
                       {.blocks = "{fc: [dense: {output: {h: $size}}, activation: relu]}"});
  EXPECT_THAT(net.variables(), ElementsAre("fc/dense/kernel [_h=2, h=3]", "fc/dense/bias [h=3]",
                                           "fc_1/dense/kernel [_h=3, h=4]", "fc_1/dense/bias [h=4]"));
  EXPECT_EQ(net.y.operation().hints().layer, 3);
}

TEST(BlockLayer, MayUseOtherBlocks) {
  const YamlLayers net(
      "[block: {use: outer, n: 5}]", kRow,
      {.blocks = "{inner: [scale: $factor], outer: [block: {use: inner, factor: $n}, scale: 2]}"});
  EXPECT_EQ(net.evaluate({1, 2}), (Values{10, 20}));
}

TEST(BlockLayer, SaysWhatIsWrong) {
  const YamlOptions options{.blocks = "{double: [scale: $factor], endless: [block: {use: endless}]}"};
  EXPECT_THAT(
      problems_of("[block: {use: doubel, factor: 2}]", options),
      HasSubstr("layers.yaml:1:2: there is no block `doubel` in `model.blocks`; did you mean `double`?"));
  EXPECT_THAT(problems_of("[block: {use: endless}]", options), HasSubstr("block `endless` uses itself"));
  EXPECT_THAT(problems_of("[block: {use: double, factr: 2}]", options),
              HasSubstr("layers.yaml:1:23: block `double` does not use `$factr`; did you mean `factor`?"));
  EXPECT_THAT(problems_of("[block: {use: double}]", options),
              HasSubstr("blocks.yaml:1:18: unknown variable `factor`"));
  EXPECT_THAT(problems_of("[block]", options), HasSubstr("use"));
}

TEST(RearrangingLayers, MeanReshapeRename) {
  const Shape image = {{"batch", 1}, {"rows", 2}, {"cols", 2}};
  const YamlLayers mean("[mean: cols]", image);
  EXPECT_EQ(mean.evaluate({1, 3, 5, 9}), (Values{2, 7}));
  const YamlLayers reshape("[reshape: {output: {pixels: 4}}, dense: {output: {c: 1}, bias: false}]", image);
  EXPECT_THAT(reshape.variables(), ElementsAre("dense/kernel [pixels=4, c=1]"));
  // Renamed dimensions of space leave the channels what they are.
  const YamlLayers before_convolution("[rename: {from: rows, to: r}, conv2d: {output: {f: 4}}]",
                                      {{"batch", 1}, {"rows", 4}, {"cols", 4}, {"channels", 3}});
  EXPECT_EQ(before_convolution.y.shape(), (Shape{{"batch", 1}, {"r", 4}, {"cols", 4}, {"f", 4}}));
  const YamlLayers rename(
      "[rename: {from: cols, to: width}, dense: {output: {c: 1}, over: width, bias: false}]", image);
  EXPECT_EQ(rename.y.shape(), (Shape{{"batch", 1}, {"rows", 2}, {"c", 1}}));
  EXPECT_THAT(error_of("[reshape: {output: {pixels: 5}}]", image),
              HasSubstr("reshape: [rows=2, cols=2] has 4 entries and [pixels=5] has 5"));
}

}  // namespace
}  // namespace mtf::testing
