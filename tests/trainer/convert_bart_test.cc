#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/failure.h"
#include "trainer/programs/convert/bart.h"
#include "trainer/programs/convert/bart_config.h"
#include "trainer/programs/convert/bart_vocabulary.h"
#include "trainer/programs/convert/config_text.h"

namespace mtf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

BartConfig unusual_marian() {
  BartConfig marian;
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
  marian.generation.num_beams = 6;
  marian.generation.length_penalty = 0.5;
  return marian;
}

/// A vocabulary for each side, and a matrix of its own for the logits.
BartConfig marian_apart() {
  BartConfig marian = unusual_marian();
  marian.decoder_vocab_size = 77;
  marian.shared_embedding = marian.tied = marian.scales_embedding = false;
  marian.predicts_padding = true;
  return marian;
}

std::string infer_of(const BartConfig& bart) {
  std::vector<std::string> notes;
  const std::string text = infer_text(
      bart.generation, generation_lengths(bart), [](int32_t) { return std::nullopt; }, notes);
  EXPECT_THAT(notes, IsEmpty());
  return text;
}

std::string marian_text(const BartConfig& marian) {
  const auto side = [](int64_t size) {
    return fmt::format("{{type: marian, path: absent.spm, ids: absent.json, size: {}}}", size);
  };
  return bart_yaml(marian, {.vocabulary = fmt::format("{{inputs: {}, targets: {}}}", side(marian.vocab_size),
                                                      side(marian.decoder_vocab_size)),
                            .target = {"/models/a b"},
                            .source = "marian",
                            .infer = infer_of(marian)});
}

/// What a configuration of this program says; it has all but the ids of tokens, and has `bart.generation` as they are.
BartConfig bart_of_text(const std::string& text, const BartConfig& bart, bool is_marian) {
  const Config config = ConfigText(text, "bart").load();
  BartConfig again = bart_of(config, is_marian);
  std::vector<std::string> notes;
  again.generation = generation_of(
      config.infer, generation_lengths(bart), [](const config::Name&) { return std::nullopt; }, notes);
  EXPECT_THAT(notes, IsEmpty());
  return again;
}

BartConfig marian_again(const BartConfig& marian) {
  std::vector<std::string> notes;
  BartConfig again = parse_bart_config(bart_json(marian), "config.json", notes);
  parse_bart_generation(bart_generation_json(marian), "generation_config.json", again, notes);
  EXPECT_THAT(notes, IsEmpty());
  return again;
}

TEST(MarianConfig, SurvivesBothOfItsForms) {
  for (const BartConfig& marian : {unusual_marian(), marian_apart(), BartConfig()}) {
    EXPECT_EQ(marian_again(marian), marian);
    BartConfig again = bart_of_text(marian_text(marian), marian, true);
    again.vocab_size = marian.vocab_size;  // vocabulary and weights determine these
    again.decoder_vocab_size = marian.decoder_vocab_size;
    again.padding = marian.padding;
    again.end = marian.end;
    EXPECT_EQ(again, marian);
  }
}

TEST(MarianConfig, WordsThatAreForbiddenArePaddingAndSingleTokens) {
  BartConfig marian = unusual_marian();
  marian.predicts_padding = true;
  std::vector<std::string> notes;
  parse_bart_generation(R"({"bad_words_ids": [[5, 6], [7]], "num_beams": 2})", "g.json", marian, notes);
  EXPECT_TRUE(marian.predicts_padding);
  EXPECT_EQ(marian.generation.num_beams, 2);
  EXPECT_THAT(marian.generation.suppress_tokens, ElementsAre(7));
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_THAT(notes[0], HasSubstr("`bad_words_ids` has [5,6]"));
}

TEST(MarianConfig, WhatCannotBeBuiltIsRefused) {
  const auto what = [](const std::string& json) {
    std::vector<std::string> notes;
    return failure([&] { (void)parse_bart_config(json, "config.json", notes); }, ErrorKind::kCheckpoint);
  };
  const std::string marian = R"({"model_type": "marian", )";
  EXPECT_THAT(what(R"({"model_type": "pegasus"})"),
              HasSubstr("`model_type` is pegasus, which cannot be converted"));
  EXPECT_THAT(what(marian + R"("vocab_size": 10})"), HasSubstr("there is no `pad_token_id`"));
  EXPECT_THAT(what(marian + R"("eos_token_id": [0.5, 1]})"), HasSubstr("`eos_token_id` is [0.5,1], no id"));
  EXPECT_THAT(what(marian + R"("eos_token_id": 58100})"), HasSubstr("are both 58100"));
  EXPECT_THAT(what(marian + R"("decoder_start_token_id": 1})"),
              HasSubstr("texts begin with one of these two"));
  EXPECT_THAT(what(marian + R"("static_position_embeddings": false})"), HasSubstr("only true can be"));
}

TEST(MarianConfig, OtherModelsAreRefusedWithTheDifference) {
  const auto what = [](const std::string& from, const std::string& to) {
    std::string text = marian_text(unusual_marian());
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    return failure([&] { (void)bart_of(ConfigText(text, "model").load(), true); }, ErrorKind::kConfig);
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
  for (const BartConfig& marian : {unusual_marian(), marian_apart()}) {
    std::set<std::string> names;
    const std::vector<Variable> variables = ConfigText(marian_text(marian), "marian").variables();
    for (const Variable& variable : variables) {
      const std::optional<BartTensor> tensor = bart_tensor(variable.name, BartKind::kMarian);
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
    EXPECT_FALSE(bart_tensor(other, BartKind::kMarian)) << other;
}

BartConfig unusual_bart(BartKind kind) {
  BartConfig bart = default_bart(kind);
  bart.vocab_size = bart.decoder_vocab_size = 71;
  bart.d_model = 30;
  bart.encoder = {.num_layers = 2, .num_heads = 5, .intermediate = 7};
  bart.decoder = {.num_layers = 3, .num_heads = 1, .intermediate = 9};
  bart.max_positions = 100;
  bart.dropout = 0.25;
  bart.generation.num_beams = 4;
  bart.generation.no_repeat_ngram_size = 3;
  bart.generation.min_length = 6;
  bart.generation.max_length = 42;
  bart.forced_begin = 5;
  bart.scales_embedding = true;
  return bart;
}

constexpr std::array kOthers = {BartKind::kBart, BartKind::kMbart, BartKind::kM2m100};

std::string bart_text(const BartConfig& bart) {
  const std::string side =
      fmt::format("{{type: hugging_face, path: absent.json, begin: p, end: e, size: {}}}", bart.vocab_size);
  return bart_yaml(bart,
                   {.vocabulary = side, .target = {"/models/a"}, .source = "bart", .infer = infer_of(bart)});
}

TEST(BartConfig, SurvivesBothOfItsForms) {
  for (const BartKind kind : kOthers) {
    const BartConfig bart = unusual_bart(kind);
    EXPECT_EQ(marian_again(bart), bart) << form_of(kind).name;
    // What the decoder is given is no part of the text here, and counts in the penalty all the same.
    EXPECT_THAT(bart_text(bart),
                HasSubstr("length_penalty: {alpha: 1, plus: 1}, max_length: 40, min_length: 4,"));
    BartConfig again = bart_of_text(bart_text(bart), bart, false);
    again.vocab_size = again.decoder_vocab_size = bart.vocab_size;
    again.padding = bart.padding;
    again.end = bart.end;
    again.begin = bart.begin;
    again.forced_begin = bart.forced_begin;
    EXPECT_EQ(again, bart) << form_of(kind).name;
  }
}

BartConfig parsed(const std::string& json) {
  std::vector<std::string> notes;
  return parse_bart_config(json, "config.json", notes);
}

TEST(BartConfig, HasTheValuesOfPublishedModels) {
  const BartConfig base = parsed(
      R"({"model_type": "bart", "activation_function": "gelu", "d_model": 768, "encoder_layers": 6,
          "decoder_layers": 6, "encoder_attention_heads": 12, "decoder_attention_heads": 12, "encoder_ffn_dim": 3072,
          "decoder_ffn_dim": 3072, "attention_dropout": 0.1, "activation_dropout": 0.1, "normalize_before": false,
          "normalize_embedding": true, "add_final_layer_norm": false, "scale_embedding": false, "bos_token_id": 0,
          "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2, "vocab_size": 50265})");
  EXPECT_EQ(base.kind, BartKind::kBart);
  EXPECT_EQ(base.start, DecoderStart::kEnd);
  EXPECT_EQ(base.activation, Activation::kGeluErf);
  EXPECT_FALSE(base.scales_embedding);
  const BartConfig mbart = parsed(
      R"({"model_type": "mbart", "activation_function": "relu", "normalize_before": true, "add_final_layer_norm": true,
          "scale_embedding": true, "decoder_start_token_id": 2, "vocab_size": 250054})");
  EXPECT_EQ(mbart.kind, BartKind::kMbart);
  EXPECT_EQ(mbart.activation, Activation::kRelu);
  EXPECT_TRUE(mbart.scales_embedding);
  const BartConfig nllb = parsed(
      R"({"model_type": "m2m_100", "encoder_layerdrop": 0, "decoder_layerdrop": 0, "vocab_size": 256206})");
  EXPECT_EQ(nllb.kind, BartKind::kM2m100);
  EXPECT_EQ(nllb.activation, Activation::kRelu);
  EXPECT_EQ(nllb.attention_dropout, 0.1);
  EXPECT_TRUE(nllb.scales_embedding);
  EXPECT_EQ(nllb.start, DecoderStart::kEnd);
}

TEST(BartConfig, WhatCannotBeBuiltIsRefused) {
  const auto what = [](const std::string& json) {
    return failure([&] { (void)parsed(json); }, ErrorKind::kCheckpoint);
  };
  EXPECT_THAT(what(R"({"model_type": "mbart"})"), HasSubstr("there is no `decoder_start_token_id`"));
  EXPECT_THAT(
      what(R"({"model_type": "mbart", "decoder_start_token_id": 250020})"),
      HasSubstr("`decoder_start_token_id` is 250020, and neither `pad_token_id` 1 nor `eos_token_id` 2"));
  EXPECT_THAT(what(R"({"model_type": "m2m_100", "d_model": 15, "encoder_attention_heads": 5})"),
              HasSubstr("an even number"));
}

TEST(BartConfig, OtherModelsAreRefusedWithTheDifference) {
  const auto what = [](BartKind kind, const std::string& from, const std::string& to) {
    std::string text = bart_text(unusual_bart(kind));
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    return failure([&] { (void)bart_of(ConfigText(text, "model").load(), false); }, ErrorKind::kConfig);
  };
  using Change = std::tuple<BartKind, std::string, std::string, std::string>;
  for (const auto& [kind, from, to, difference] : std::vector<Change>{
           {BartKind::kBart, "positions: learned", "positions: sinusoid_hf", "its positions are others"},
           {BartKind::kBart, "first_position: 2", "first_position: 1", "its positions count from 1"},
           {BartKind::kBart, "shared_positions: false", "shared_positions: true", "share positions"},
           {BartKind::kBart, "shared_embedding: true", "shared_embedding: false", "an embedding each"},
           {BartKind::kBart, "initial: [layer_norm, ", "initial: [", "`sublayers.initial` is []"},
           {BartKind::kMbart, "final: [layer_norm]", "final: []", "`sublayers.final` is []"},
           {BartKind::kMbart, "epsilon: 1e-05", "epsilon: 1e-6", "its norms have another `epsilon`"},
           {BartKind::kM2m100, "logit_bias: false", "logit_bias: true", "its logits have a bias"},
           {BartKind::kM2m100, "initial: [", "initial: [layer_norm, ",
            "`sublayers.initial` is [layer_norm]"}})
    EXPECT_THAT(what(kind, from, to), HasSubstr(difference)) << from;
}

TEST(BartVocabulary, BothSidesHaveOneTokeniser) {
  const auto what = [](const std::string& inputs, const std::string& targets) {
    BartConfig bart = unusual_bart(BartKind::kMbart);
    const std::string text =
        bart_yaml(bart, {.vocabulary = fmt::format("{{inputs: {{{}}}, targets: {{{}}}}}", inputs, targets),
                         .target = {"/models/a"},
                         .source = "bart"});
    const Config config = ConfigText(text, "bart").load();
    std::vector<std::string> notes;
    return failure([&] { (void)export_bart_vocabulary(config, "absent", bart, notes); }, ErrorKind::kConfig);
  };
  const std::string marian = "type: marian, path: absent.spm, ids: absent.json, size: 71",
                    one = "type: hugging_face, path: a.json, begin: p, end: e, size: 71",
                    other = "type: hugging_face, path: b.json, begin: p, end: e, size: 71";
  EXPECT_THAT(what(one, marian), HasSubstr("vocabularies of two types"));
  EXPECT_THAT(what(marian, one), HasSubstr("vocabularies of two types"));
  EXPECT_THAT(what(one, other), HasSubstr("a model in Hugging Face form has one"));
}

TEST(BartVocabulary, OfAnM2m100SaysWhichFileIsMissing) {
  const std::string directory = ::testing::TempDir() + "/m2m100_without_a_vocabulary";
  std::filesystem::remove_all(directory);
  std::filesystem::create_directories(directory);
  const auto write = [&](const char* name, const char* text) {
    std::ofstream(directory + "/" + name) << text;
  };
  const auto missing = [&] {
    return failure(
        [&] {
          BartConfig bart = unusual_bart(BartKind::kM2m100);
          BartIds ids;
          HuggingFaceImport import;
          settle_bart_vocabulary(directory, {}, bart, ids, import);
        },
        ErrorKind::kCheckpoint);
  };
  write("tokenizer_config.json", R"({"tokenizer_class": "M2M100Tokenizer"})");
  EXPECT_THAT(missing(), HasSubstr("there is no " + directory + "/sentencepiece.bpe.model"));
  write("sentencepiece.bpe.model", "");
  EXPECT_THAT(missing(), HasSubstr("there is no " + directory + "/vocab.json"));
}

TEST(BartNames, EveryVariableOfAModelHasADifferentOne) {
  for (const BartKind kind : kOthers) {
    std::set<std::string> names;
    const std::vector<Variable> variables = ConfigText(bart_text(unusual_bart(kind)), "bart").variables();
    for (const Variable& variable : variables) {
      const std::optional<BartTensor> tensor = bart_tensor(variable.name, kind);
      ASSERT_TRUE(tensor) << variable.name;
      names.insert(tensor->name);
    }
    // Beside the blocks: embedding and bias; positions and norms of both sides.
    const size_t beside = kind == BartKind::kBart ? 2 + 2 + 4 : kind == BartKind::kMbart ? 2 + 2 + 8 : 1 + 4;
    EXPECT_EQ(variables.size(), 2U * 16 + 3U * 26 + beside) << form_of(kind).name;
    EXPECT_EQ(names.size(), variables.size());
    EXPECT_EQ(names.contains("model.encoder.layernorm_embedding.weight"), kind != BartKind::kM2m100);
    EXPECT_EQ(names.contains("model.decoder.layer_norm.bias"), kind != BartKind::kBart);
  }
}

}  // namespace
}  // namespace mtf
