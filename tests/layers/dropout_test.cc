#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/layers/yaml_layers.h"

namespace mtf::testing {
namespace {

using ::testing::HasSubstr;

TEST(DropoutLayer, ZeroesAPartAndScalesTheRest) {
  const YamlLayers net("[dropout: 0.25]", {{"batch", 100}, {"h", 40}});
  const Values y = net.evaluate(Values(4000, 3));
  const auto zeros = std::count(y.begin(), y.end(), 0);
  EXPECT_NEAR(zeros / 4000.0, 0.25, 0.03);
  EXPECT_EQ(std::count(y.begin(), y.end(), 4), 4000 - zeros);
}

TEST(DropoutLayer, IsTheIdentityInEvaluation) {
  const YamlLayers net("[dropout: 0.25]", {{"batch", 10}, {"h", 4}}, {.mode = Mode::kEvaluate});
  EXPECT_EQ(net.y, net.x);
}

TEST(DropoutLayer, SharesOneMaskAlongDimensions) {
  const YamlLayers net("[dropout: {rate: 0.5, share: h}]", {{"batch", 50}, {"h", 4}});
  const Values y = net.evaluate(Values(200, 1));
  for (int i = 0; i < 50; ++i) {
    for (int j = 1; j < 4; ++j) EXPECT_EQ(y[i * 4 + j], y[i * 4]);
  }
}

TEST(DropoutLayer, EachLayerHasAMaskOfItsOwn) {
  const YamlLayers one("[dropout: 0.5]", {{"batch", 64}});
  const YamlLayers named("[dropout: {rate: 0.5, name: other}]", {{"batch", 64}});
  EXPECT_NE(one.evaluate(Values(64, 1)), named.evaluate(Values(64, 1)));
}

TEST(DropoutLayer, RefusesImpossibleRatesAndUnknownDimensions) {
  EXPECT_THAT(problems_of("[dropout: 1.5]"), HasSubstr("dropout.rate"));
  EXPECT_THAT(problems_of("[dropout: 1]"), HasSubstr("a dropout rate of 1 leaves nothing"));
  EXPECT_THAT(error_of("[dropout: {rate: 0.5, share: hidde}]", {{"batch", 4}, {"hidden", 2}}),
              HasSubstr("did you mean `hidden`?"));
}

}  // namespace
}  // namespace mtf::testing
