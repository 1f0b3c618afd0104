#include "layers/alibi.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "engine/ops/cast.h"
#include "engine/ops/einsum.h"
#include "engine/ops/indexing.h"
#include "tests/layers/yaml_layers.h"
#include "tests/support/evaluate_tensors.h"

namespace mtf::testing {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kPositions = 520, kEntries = 2;

/// Expects that the logits of each head are q·k and, for each position of the memory, `slopes` times it.
void expect_slopes(const Shape& heads, const std::vector<double>& slopes, DType dtype) {
  Graph graph;
  const Dimension memory{"memory_length", kPositions}, entries{"d_kv", kEntries};
  AttentionInputs inputs{.q = graph.constant(0.5, dtype, heads + Shape{entries}),
                         .k = graph.constant(0.25, dtype, Shape{memory, entries}),
                         .v = {}};
  add_alibi(inputs, heads, range(graph, memory));
  EXPECT_EQ(inputs.q.shape(), (heads + Shape{{std::string(kAlibiKey), kEntries + 2}}));
  const Tensor q = cast(inputs.q, DType::kFloat32), k = cast(inputs.k, DType::kFloat32);
  const Values logits = evaluate(graph, {einsum({q, k}, heads + Shape{memory})}, {})[0];
  for (size_t head = 0; head < slopes.size(); ++head) {
    const double slope = logits[head * kPositions + 1] - logits[head * kPositions];
    EXPECT_NEAR(slope, slopes[head], dtype == DType::kFloat32 ? 1e-6 : 0.004 * slopes[head]);
    for (size_t i = 0; i < kPositions; ++i)
      EXPECT_NEAR(logits[head * kPositions + i], 0.25 + slope * static_cast<double>(i), 1e-4)
          << head << " " << i;
  }
}

TEST(Alibi, LogitsGrowByTheSlopeOfTheHead) {
  // Press et al., section 3: 2^-2, 2^-4, 2^-6, 2^-8 for four heads; six have two of those of eight heads between them.
  expect_slopes({{"heads", 4}}, {0.25, 0.0625, 0.015625, 0.00390625}, DType::kFloat32);
  expect_slopes({{"heads", 2}, {"query_heads", 3}}, {0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125},
                DType::kFloat32);
  expect_slopes({}, {0.00390625}, DType::kFloat32);
}

TEST(Alibi, DistancesStayExactInBfloat16) {
  expect_slopes({{"heads", 3}}, {0.0625, 0.00390625, 0.25}, DType::kBFloat16);
  expect_slopes({{"heads", 16}}, {std::exp2(-0.5), 0.5, std::exp2(-1.5)}, DType::kBFloat16);
}

TEST(Alibi, StandsBesideNothingThatNeedsLogitsOfDistances) {
  const auto problem = [](const std::string& option) {
    return problems_of("[SelfAttention: {alibi: true, " + option + "}]");
  };
  for (const char* option : {"rotary: true", "relative_attention_type: bias", "soft_cap: 30",
                             "extra_logit: 0", "prefix_length: 2", "z_loss: 0.1"})
    EXPECT_THAT(problem(option), HasSubstr("it cannot stand beside `alibi: true`")) << option;
}

}  // namespace
}  // namespace mtf::testing
