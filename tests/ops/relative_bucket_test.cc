#include "engine/ops/relative_bucket.h"

#include <gtest/gtest.h>

#include "tests/support/golden.h"

namespace mtf::testing {
namespace {

TEST(RelativeBuckets, AreThoseOfTheReference) {
  const GoldenCase golden(MTF_SOURCE_DIR "/tests/golden/09_relative_position_bucket");
  const Values& relative = golden.at("input/relative_position").values;
  const std::map<std::string, RelativeBuckets> cases = {
      {"bidirectional_n32_d128", {true, 32, 128}}, {"causal_n32_d128", {false, 32, 128}},
      {"bidirectional_n16_d64", {true, 16, 64}},   {"causal_n8_d20", {false, 8, 20}},
      {"bidirectional_n8_d128", {true, 8, 128}},   {"causal_n12_d100", {false, 12, 100}}};
  EXPECT_EQ(golden.names("output/bucket/").size(), cases.size());
  for (const auto& [name, buckets] : cases) {
    const Values& expected = golden.at("output/bucket/" + name).values;
    for (size_t i = 0; i < relative.size(); ++i)
      EXPECT_EQ(buckets(static_cast<int64_t>(relative[i])), static_cast<int64_t>(expected[i]))
          << name << " " << relative[i];
  }
}

}  // namespace
}  // namespace mtf::testing
