#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/layers/yaml_layers.h"

namespace mtf::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Shape kRows{{"batch", 2}, {"d", 3}};

TEST(Lora, AddsTheProductOfTwoThinMatrices) {
  const YamlLayers net("[dense: {output: {h: 2}, bias: false, lora: {rank: 1, alpha: 3}}]", kRows);
  EXPECT_THAT(net.variables(),
              ElementsAre("dense/kernel [d=3, h=2]", "dense/kernel_lora_a [d=3, lora_rank=1]",
                          "dense/kernel_lora_b [lora_rank=1, h=2]"));
  const Values x = {1, 2, 3, -1, 0, 1}, kernel = {1, 0, 0, 1, 1, 1}, down = {1, -1, 2}, up = {10, 1};
  // x · kernel = {4, 5}, {0, 1}; x · a = 5, 1; alpha / rank = 3
  EXPECT_THAT(
      net.evaluate(x, {{"dense/kernel", kernel}, {"dense/kernel_lora_a", down}, {"dense/kernel_lora_b", up}}),
      ElementsAre(4 + 150, 5 + 15, 0 + 30, 1 + 3));
}

TEST(Lora, BeginsWithoutAnEffect) {
  const std::string dense = "dense: {output: {h: 4}";
  const YamlLayers with("[" + dense + ", lora: {rank: 2}}]", kRows), without("[" + dense + "}]", kRows);
  const Values x = {1, 2, 3, -1, 0, 1};
  EXPECT_EQ(with.evaluate(x), without.evaluate(x));
}

TEST(Lora, RefusesWhatLeavesNothing) {
  EXPECT_THAT(problems_of("[dense: {output: {h: 4}, lora: {dropout: 1}}]"), HasSubstr("leaves nothing"));
  EXPECT_THAT(problems_of("[dense: {output: {h: 4}, lora: {rank: 0}}]"), HasSubstr("lora.rank"));
  EXPECT_THAT(error_of("[dense: {output: {h: 4}, lora: {rank: 4}}]", kRows),
              HasSubstr("the rank 4 is more than that of `kernel`, which is 3 x 4"));
  EXPECT_THAT(problems_of("[SelfAttention: {lora: {kernels: [q, q]}}]"),
              HasSubstr("a kernel is named twice"));
  EXPECT_THAT(problems_of("[SelfAttention: {lora: {kernels: []}}]"), HasSubstr("no kernel gets an update"));
}

}  // namespace
}  // namespace mtf::testing
