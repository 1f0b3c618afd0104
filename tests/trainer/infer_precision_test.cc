// Tests that texts which are written with weights in fewer bits are nearly those of float32, and the same alone, among
// others and on every layout.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "tests/trainer/decode_testing.h"

namespace mtf::testing {
namespace {

constexpr int64_t kNarrowVocabulary = 30;
constexpr const char* kNarrowModel =
    "{type: bitransformer, d_model: 32, max_length: 16, vocab_divisor: 32, "
    "layer_defaults: {SelfAttention: {num_heads: 4, key_value_size: 8}, "
    "EncDecAttention: {num_heads: 4, num_memory_heads: 2, key_value_size: 8, combine_dims: false}, "
    "DenseReluDense: {hidden_size: 64, activation: [swish, linear]}}, "
    "encoder: {num_layers: 1, block: [SelfAttention, DenseReluDense]}, "
    "decoder: {num_layers: 2, block: [SelfAttention, EncDecAttention, DenseReluDense]}}";

std::vector<GivenText> narrow_texts() {
  std::vector<GivenText> given = growing_texts(8, 27);
  for (size_t row = 0; row < given.size(); ++row) given[row].limit = static_cast<int64_t>(6 + row % 4);
  return given;
}

std::vector<Written> written(InferPrecision precision, const std::vector<GivenText>& texts,
                             const DecodeOptions& options, const Layouts& layouts = Layouts::single()) {
  DecodeRun run(kNarrowModel, kNarrowVocabulary, layouts, precision);
  run.set_varied(0.3);
  return run.decode(texts, options);
}

class NarrowTexts : public ::testing::TestWithParam<InferPrecision> {
 protected:
  void SetUp() override {
    if (GetParam() == InferPrecision::kInt8 && !test_backend()->is_host())
      GTEST_SKIP() << "products of codes are for processors";
  }
};
INSTANTIATE_TEST_SUITE_P(Types, NarrowTexts,
                         ::testing::Values(InferPrecision::kBFloat16, InferPrecision::kInt8),
                         [](const auto& info) {
                           return info.param == InferPrecision::kInt8 ? "int8" : "bfloat16";
                         });

TEST_P(NarrowTexts, BeginLikeThoseOfFloat32) {
  const DecodeOptions greedy{.method = GreedyMethod{}};
  const auto wide = written(InferPrecision::kSame, narrow_texts(), greedy),
             narrow = written(GetParam(), narrow_texts(), greedy);
  for (size_t text = 0; text < wide.size(); ++text) {
    ASSERT_EQ(narrow[text][0].tokens[0], wide[text][0].tokens[0]);
    EXPECT_NEAR(narrow[text][0].log_probs[0], wide[text][0].log_probs[0], 0.1);
    EXPECT_NE(narrow[text][0].log_probs[0], wide[text][0].log_probs[0]);
  }
}

TEST_P(NarrowTexts, DoNotDependOnTextsBesideThem) {
  // The order of a device's sums depends on the shapes of matrices.
  const double tolerance = test_backend()->is_host() ? 0 : 2e-2;
  for (const bool beam : {false, true}) {
    DecodeOptions options{.beam_size = 3};
    if (!beam) options = {.method = GreedyMethod{}};
    const auto together = written(GetParam(), narrow_texts(), options);
    for (size_t i = 0; i < together.size(); ++i)
      expect_equal_texts(written(GetParam(), {narrow_texts()[i]}, options), {together[i]}, tolerance);
  }
}

TEST_P(NarrowTexts, AreTheSameOnEveryLayout) {
  const DecodeOptions options{.beam_size = 2};
  const auto one = written(GetParam(), narrow_texts(), options);
  for (const auto& [mesh, layout, parameters] : {std::array{"x:2", "batch:x", ""},
                                                 {"x:8", "batch:x", ""},
                                                 {"x:2", "heads:x;d_ff:x;vocab:x", ""},
                                                 {"x:2;y:2", "batch:x;heads:y;d_ff:y", ""},
                                                 {"x:4", "d_ff:x;vocab:x", ""},
                                                 {"x:2", "batch:x", "d_model:x"}}) {
    SCOPED_TRACE(layout);
    expect_equal_texts(written(GetParam(), narrow_texts(), options, layouts(mesh, layout, parameters)), one,
                       GetParam() == InferPrecision::kInt8 ? 1e-6 : 2e-2);
  }
}

}  // namespace
}  // namespace mtf::testing
