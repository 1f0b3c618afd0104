#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/failure.h"
#include "trainer/programs/convert/config_text.h"
#include "trainer/programs/convert/marian.h"
#include "trainer/programs/convert/marian_config.h"

namespace mtf {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

MarianConfig unusual_marian() {
  MarianConfig marian;
  marian.vocab_size = marian.decoder_vocab_size = 55;
  marian.padding = 52;
  marian.end = 3;
  marian.d_model = 30;
  marian.encoder = {.num_layers = 2, .num_heads = 5, .intermediate = 7};
  marian.decoder = {.num_layers = 3, .num_heads = 1, .intermediate = 9};
  marian.max_positions = 100;
  marian.activation = Activation::kSwish;
  marian.dropout = 0.25;
  marian.attention_dropout = 0.125;
  marian.activation_dropout = 0.5;
  marian.scales_embedding = true;
  marian.predicts_padding = false;
  marian.num_beams = 6;
  return marian;
}

/// A vocabulary for each side, and a matrix of its own for the logits.
MarianConfig marian_apart() {
  MarianConfig marian = unusual_marian();
  marian.decoder_vocab_size = 77;
  marian.shared_embedding = marian.tied = marian.scales_embedding = false;
  marian.predicts_padding = true;
  return marian;
}

std::string marian_text(const MarianConfig& marian) {
  const auto side = [](int64_t size) {
    return fmt::format("{{type: marian, path: absent.spm, ids: absent.json, size: {}}}", size);
  };
  return marian_yaml(marian,
                     {.vocabulary = fmt::format("{{inputs: {}, targets: {}}}", side(marian.vocab_size),
                                                side(marian.decoder_vocab_size)),
                      .target = {"/models/a b"},
                      .source = "marian"});
}

MarianConfig marian_again(const MarianConfig& marian) {
  std::vector<std::string> notes;
  MarianConfig again = parse_marian_config(marian_json(marian), "config.json", notes);
  parse_marian_generation(marian_generation_json(marian), "generation_config.json", again, notes);
  EXPECT_THAT(notes, IsEmpty());
  return again;
}

TEST(MarianConfig, SurvivesBothOfItsForms) {
  for (const MarianConfig& marian : {unusual_marian(), marian_apart(), MarianConfig()}) {
    EXPECT_EQ(marian_again(marian), marian);
    MarianConfig again = marian_of(ConfigText(marian_text(marian), "marian").load());
    again.vocab_size = marian.vocab_size;  // vocabulary and weights determine these
    again.decoder_vocab_size = marian.decoder_vocab_size;
    again.padding = marian.padding;
    again.end = marian.end;
    EXPECT_EQ(again, marian);
  }
}

TEST(MarianConfig, WordsThatAreForbiddenArePaddingAlone) {
  MarianConfig marian = unusual_marian();
  marian.predicts_padding = true;
  std::vector<std::string> notes;
  parse_marian_generation(R"({"bad_words_ids": [[5, 6], [7]], "num_beams": 2})", "g.json", marian, notes);
  EXPECT_TRUE(marian.predicts_padding);
  EXPECT_EQ(marian.num_beams, 2);
  ASSERT_EQ(notes.size(), 2U);
  EXPECT_THAT(notes[0], HasSubstr("`bad_words_ids` has [5,6]"));
}

TEST(MarianConfig, WhatCannotBeBuiltIsRefused) {
  const auto what = [](const std::string& json) {
    std::vector<std::string> notes;
    return failure([&] { (void)parse_marian_config(json, "config.json", notes); }, ErrorKind::kCheckpoint);
  };
  const std::string marian = R"({"model_type": "marian", )";
  EXPECT_THAT(what(R"({"model_type": "bart"})"),
              HasSubstr("`model_type` is bart, which cannot be converted"));
  EXPECT_THAT(what(marian + R"("vocab_size": 10})"), HasSubstr("there is no `pad_token_id`"));
  EXPECT_THAT(what(marian + R"("eos_token_id": [0, 1]})"), HasSubstr("`eos_token_id` is [0,1], no id"));
  EXPECT_THAT(what(marian + R"("eos_token_id": 58100})"), HasSubstr("are both 58100"));
  EXPECT_THAT(what(marian + R"("decoder_start_token_id": 1})"), HasSubstr("texts begin with padding"));
  EXPECT_THAT(what(marian + R"("static_position_embeddings": false})"), HasSubstr("only true can be"));
}

TEST(MarianConfig, OtherModelsAreRefusedWithTheDifference) {
  const auto what = [](const std::string& from, const std::string& to) {
    std::string text = marian_text(unusual_marian());
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    return failure([&] { (void)marian_of(ConfigText(text, "model").load()); }, ErrorKind::kConfig);
  };
  for (const auto& [from, to, difference] : std::vector<std::tuple<std::string, std::string, std::string>>{
           {"sinusoid_hf", "sinusoid", "its positions are others"},
           {"residual, layer_norm", "residual", "`sublayers.per_layer` is [call_layer, residual]"},
           {"final: []", "final: [layer_norm]", "`sublayers.final` is [layer_norm]"},
           {"epsilon: 1e-05", "epsilon: 1e-6", "its norms have another `epsilon`"},
           {"scale_like_classifier: true", "scale_logits: true",
            "it has another embedding, or divides logits"},
           {"{bias: true, fold", "{bias: qkv, fold", "SelfAttention has no biases"},
           {"key_value_size: 6", "key_value_size: 4", "SelfAttention has 5 heads of 4"},
           {"SelfAttention: {bias", "SelfAttention: {rotary: true, bias", "rotary"},
           {"{bias: true, fold", "{scaling_size: 3, bias: true, fold", "SelfAttention has a scaling_size"},
           {"{bias: true, fold", "{qk_norm: true, bias: true, fold", "SelfAttention has qk_norm"},
           {"{bias: true, fold", "{prefix_length: 2, bias: true, fold", "SelfAttention has a prefix"},
           {"activation: swish", "activation: [swish, linear]", "the activation [swish, linear]"},
           {"z_loss: 0", "logit_soft_cap: 3", "its logits have a soft cap"}})
    EXPECT_THAT(what(from, to), HasSubstr(difference));
}

TEST(MarianNames, EveryVariableOfAModelHasADifferentOne) {
  for (const MarianConfig& marian : {unusual_marian(), marian_apart()}) {
    std::set<std::string> names;
    const std::vector<Variable> variables = ConfigText(marian_text(marian), "marian").variables();
    for (const Variable& variable : variables) {
      const std::optional<MarianTensor> tensor = marian_tensor(variable.name);
      ASSERT_TRUE(tensor) << variable.name;
      names.insert(tensor->name);
    }
    // A block has 8 variables of attention and 2 of its norm, once or twice, and 6 of the last layer.
    EXPECT_EQ(variables.size(), 2U * 16 + 3U * 26 + (marian.shared_embedding ? 2 : 4));
    EXPECT_EQ(names.size(), variables.size());
  }
  for (const char* other :
       {"encoder/block_000/layer_001/EncDecAttention/q", "encoder/block_000/layer_002/layer_norm",
        "decoder/block_0/layer_000/SelfAttention/q", "decoder/block_000/layer_000/SelfAttention/kv",
        "encoder/rms_norm/scale", ""})
    EXPECT_FALSE(marian_tensor(other)) << other;
}

}  // namespace
}  // namespace mtf
