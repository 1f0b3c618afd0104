// Compares greedy decoding and beam search with recorded results of Mesh TensorFlow, on one position and on
// 2x2 layouts.
#include <gmock/gmock.h>

#include "data/vocabulary/vocabulary.h"
#include "tests/support/golden.h"
#include "tests/support/run_on_mesh.h"
#include "tests/trainer/decode_testing.h"

namespace mtf::testing {
namespace {

const std::vector<std::vector<std::string>> kDecodeLayouts = {
    {"", ""},
    {"x:2;y:2", "batch:x;d_ff:y;heads:y;vocab:y"},
    {"x:2;y:2", "batch:x;d_model:y"},
};

/// Returns a row from `first` on, up to its end-of-sequence token or its last token.
std::vector<int32_t> tokens_of(const GoldenTensor& tensor, int64_t row, int64_t first = 0) {
  const int64_t length = tensor.shape[tensor.shape.rank() - 1].size;
  std::vector<int32_t> tokens;
  for (int64_t i = first; i < length; ++i) {
    tokens.push_back(static_cast<int32_t>(tensor.values[static_cast<size_t>(row * length + i)]));
    if (tokens.back() == kEosId) break;
  }
  return tokens;
}

/// Returns the tokens of a row before the first 0.
std::vector<int32_t> given_of(const GoldenTensor& tensor, int64_t row) {
  std::vector<int32_t> tokens = tokens_of(tensor, row);
  tokens.erase(std::find(tokens.begin(), tokens.end(), 0), tokens.end());
  return tokens;
}

constexpr const char* kLanguageModel =
    "{type: lm, d_model: 32, num_layers: 2, max_length: 16, vocab_divisor: 8, shared_embedding_and_softmax: "
    "false, "
    "block: [SelfAttention: {num_heads: 4, key_value_size: 8}, DenseReluDense: {hidden_size: 64}]}";

TEST(GoldenDecode, LanguageModelGoesOnWithItsPrefix) {
  const GoldenCase golden(MTF_SOURCE_DIR "/tests/golden/04_lm_eval_greedy_sample");
  const GoldenTensor &partial = golden.at("input/partial"), &sample = golden.at("output/sample");
  for (const auto& words : kDecodeLayouts) {
    SCOPED_TRACE(words[1]);
    DecodeRun run(kLanguageModel, 64, words[0].empty() ? Layouts::single() : layouts(words[0], words[1]));
    for (const std::string& name : golden.names("weight/")) run.set(name, golden.at("weight/" + name).values);
    std::vector<GivenText> texts;
    for (int64_t row = 0; row < 2; ++row) {
      GivenText text{.inputs = {}, .prefix = given_of(partial, row)};
      text.limit = 12 - static_cast<int64_t>(text.prefix.size());
      texts.push_back(text);
    }
    const std::vector<Written> written = run.decode(texts, {.method = GreedyMethod{}});
    for (int64_t row = 0; row < 2; ++row) {
      const auto first = static_cast<int64_t>(texts[static_cast<size_t>(row)].prefix.size());
      EXPECT_EQ(written[static_cast<size_t>(row)][0].tokens, tokens_of(sample, row, first)) << row;
    }
  }
}

void expect_translations(const std::string& name, const std::string& model) {
  const GoldenCase golden(std::string(MTF_SOURCE_DIR "/tests/golden/") + name);
  const GoldenTensor& inputs = golden.at("input/inputs");
  const int64_t rows = inputs.shape[0].size, length = inputs.shape[1].size;
  std::vector<GivenText> texts;
  for (int64_t row = 0; row < rows; ++row)
    texts.push_back({.inputs = tokens_of(inputs, row), .prefix = {}, .limit = length});
  for (const auto& words : kDecodeLayouts) {
    SCOPED_TRACE(words[1]);
    DecodeRun run(model, 24, words[0].empty() ? Layouts::single() : layouts(words[0], words[1]));
    for (const std::string& weight : golden.names("weight/"))
      run.set(weight, golden.at("weight/" + weight).values);
    const std::vector<Written> greedy = run.decode(texts, {.method = GreedyMethod{}});
    for (int64_t row = 0; row < rows; ++row)
      EXPECT_EQ(greedy[static_cast<size_t>(row)][0].tokens, tokens_of(golden.at("output/greedy"), row))
          << row;
    for (const auto& [beam, alpha] : {std::pair(4, 0.6), {2, 0.0}}) {
      SCOPED_TRACE(beam);
      const std::string output = "output/beam" + std::to_string(beam) + "/";
      const GoldenTensor &ids = golden.at(output + "ids"), &scores = golden.at(output + "scores");
      const auto written = run.decode(texts, {.beam_size = beam, .length_penalty = alpha});
      for (int64_t row = 0; row < rows; ++row) {
        const Hypothesis& best = written[static_cast<size_t>(row)][0];
        EXPECT_EQ(best.tokens, tokens_of(ids, row * beam)) << row;
        if (best.tokens.back() == kEosId) {
          EXPECT_NEAR(best.score, scores.values[static_cast<size_t>(row * beam)], 1e-4) << row;
        }
      }
    }
  }
}

TEST(GoldenDecode, EncoderDecoder) {
  expect_translations(
      "05_seq2seq_decode",
      "{type: bitransformer, d_model: 32, max_length: 16, vocab_divisor: 8, "
      "layer_defaults: {SelfAttention: {num_heads: 4, key_value_size: 8}, "
      "EncDecAttention: {num_heads: 4, key_value_size: 8}, DenseReluDense: {hidden_size: 64}}, "
      "encoder: {num_layers: 1, block: [SelfAttention, DenseReluDense]}, "
      "decoder: {num_layers: 1, block: [SelfAttention, EncDecAttention, DenseReluDense]}}");
}

TEST(GoldenDecode, EncoderDecoderOfT5) {
  expect_translations(
      "05_seq2seq_decode_t5",
      "{type: bitransformer, d_model: 32, max_length: 16, vocab_divisor: 8, positions: none, "
      "shared_embedding_and_softmax: false, "
      "layer_defaults: {SelfAttention: {num_heads: 4, key_value_size: 8, relative_attention_type: "
      "bias_shared, "
      "relative_attention_num_buckets: 8}, "
      "EncDecAttention: {num_heads: 4, key_value_size: 8}, DenseReluDense: {hidden_size: 64}}, "
      "encoder: {num_layers: 1, block: [SelfAttention, DenseReluDense]}, "
      "decoder: {num_layers: 1, block: [SelfAttention, EncDecAttention, DenseReluDense]}}");
}

}  // namespace
}  // namespace mtf::testing
