#include "trainer/programs/convert/causal_lm.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "engine/safetensors/safetensors.h"
#include "tests/trainer/hugging_face_directory.h"
#include "trainer/programs/convert/causal_lm_config.h"
#include "trainer/programs/convert/config_text.h"
#include "trainer/programs/convert/files.h"
#include "trainer/programs/convert/tokenizer_ids.h"

namespace mtf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message;

constexpr std::array kFamilies = {
    CausalLmFamily::kGpt2,    CausalLmFamily::kLlama, CausalLmFamily::kMistral,  CausalLmFamily::kQwen2,
    CausalLmFamily::kQwen3,   CausalLmFamily::kGemma, CausalLmFamily::kGemma2,   CausalLmFamily::kGemma3,
    CausalLmFamily::kMixtral, CausalLmFamily::kOlmoe, CausalLmFamily::kQwen2Moe, CausalLmFamily::kQwen3Moe};

bool has_experts(CausalLmFamily family) {
  using enum CausalLmFamily;
  return family == kMixtral || family == kOlmoe || family == kQwen2Moe || family == kQwen3Moe;
}

CausalLmConfig small_lm(CausalLmFamily family) {
  const bool is_gpt2 = family == CausalLmFamily::kGpt2;
  CausalLmConfig lm;
  lm.family = family;
  lm.vocab_size = 9;
  lm.begin = 4;
  lm.end = 6;
  lm.hidden = 24;
  lm.num_layers = 2;
  lm.num_heads = 4;
  lm.num_memory_heads = is_gpt2 ? 4 : 2;
  lm.head_size = is_gpt2 || family == CausalLmFamily::kOlmoe ? 6 : 10;
  lm.intermediate = 40;
  lm.max_positions = 30;
  lm.activation = is_gpt2 ? Activation::kRelu : Activation::kGelu;
  const bool is_qwen2 = family == CausalLmFamily::kQwen2 || family == CausalLmFamily::kQwen2Moe;
  lm.attention_bias = is_gpt2    ? AttentionBias::kAll
                      : is_qwen2 ? AttentionBias::kInputs
                                 : AttentionBias::kNone;
  lm.feed_forward_bias = is_gpt2;
  lm.epsilon = 1e-4;
  lm.initializer_range = 0.25;
  lm.attention_dropout = 0.5;
  if (is_gpt2) lm.dropout = lm.embedding_dropout = 0.125;
  if (family == CausalLmFamily::kMistral) lm.local = {true};
  if (lm.has_outer_norms()) {
    lm.local = {true, false};
    lm.scaling_size = 7;
    lm.logit_soft_cap = 2.5;
  }
  if (lm.local[0]) lm.window = 5;
  if (family == CausalLmFamily::kGemma2) lm.attention_soft_cap = 1.5;
  if (family == CausalLmFamily::kGemma3) lm.local_rotary_base = 100;
  if (has_experts(family)) {
    lm.experts = {
        .count = 3, .per_token = 2, .normalized = family == CausalLmFamily::kMixtral, .shared_hidden = {}};
    lm.experts->balance_coef = 0.007;
    if (family == CausalLmFamily::kQwen2Moe) lm.experts->shared_hidden = 14;
  }
  return lm;
}

std::string yaml(const CausalLmConfig& lm) {
  return causal_lm_yaml(
      lm, {.vocabulary = "{type: hugging_face, path: tokenizer.json, begin: <s>, end: </s>, size: 9}",
           .target = {"/models/a b"},
           .source = "lm"});
}

CausalLmConfig parsed_lm(const std::string& entries) {
  return parse_causal_lm_config(R"({"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
      "num_key_value_heads": 1, "intermediate_size": 8, "vocab_size": 9, )" +
                                    entries + "}",
                                "config.json");
}

TEST(CausalLmConfig, SurvivesBothOfItsForms) {
  std::vector<CausalLmConfig> models;
  for (const CausalLmFamily family : kFamilies) models.push_back(small_lm(family));
  CausalLmConfig biased = small_lm(CausalLmFamily::kLlama);
  biased.attention_bias = AttentionBias::kAll;
  biased.feed_forward_bias = biased.tied = true;
  biased.rotary_base = 500;
  LinearRotaryScaling linear;
  linear.factor = 2.5;
  biased.rotary_scaling = linear;
  models.push_back(biased);
  biased.family = CausalLmFamily::kQwen3;
  biased.feed_forward_bias = false;
  biased.rotary_scaling = Llama3RotaryScaling();
  models.push_back(biased);
  CausalLmConfig of_experts = small_lm(CausalLmFamily::kQwen2Moe);
  of_experts.attention_bias = AttentionBias::kNone;
  of_experts.experts->normalized = true;
  of_experts.experts->balance_coef = 0;
  models.push_back(of_experts);
  of_experts.local = {true, false};
  of_experts.window = 7;
  models.push_back(of_experts);
  for (const CausalLmFamily family : {CausalLmFamily::kMixtral, CausalLmFamily::kQwen3Moe}) {
    CausalLmConfig local = small_lm(family);
    local.local = {true};
    local.window = 7;
    models.push_back(local);
  }
  CausalLmConfig different = small_lm(CausalLmFamily::kGpt2);
  different.embedding_dropout = 0.25;
  different.attention_dropout = 0.125;
  models.push_back(different);
  CausalLmConfig alternating = small_lm(CausalLmFamily::kQwen2);
  alternating.num_layers = 6;
  alternating.local = {true, false, false};
  alternating.window = 7;
  models.push_back(alternating);
  CausalLmConfig odd = small_lm(CausalLmFamily::kMistral);
  odd.hidden = 26;
  odd.local = {false};
  odd.window.reset();
  models.push_back(odd);
  for (const CausalLmConfig& lm : models) {
    const std::string json = causal_lm_json(lm);
    EXPECT_EQ(causal_lm_json(parse_causal_lm_config(json, "config.json")), json);
    CausalLmConfig again = causal_lm_of(ConfigText(yaml(lm), "lm").load());
    again.vocab_size = lm.vocab_size;  // the vocabulary says these
    again.begin = lm.begin;
    again.end = lm.end;
    EXPECT_EQ(causal_lm_json(again), json);
  }
}

TEST(CausalLmConfig, AModelWithTheUsualSublayersIsALlama) {
  std::string text = yaml(small_lm(CausalLmFamily::kLlama));
  const std::string sublayers =
      "  sublayers: {initial: [], per_layer: [rms_norm, call_layer, residual], final: [rms_norm]}\n";
  const size_t at = text.find(sublayers);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, sublayers.size(), "  dropout: 0.1\n");
  EXPECT_EQ(causal_lm_of(ConfigText(text, "lm").load()).family, CausalLmFamily::kLlama);
}

TEST(CausalLmConfig, RotaryPositionsAreThoseOfEachVersionOfTransformers) {
  const auto scaling = [](const std::string& entries) {
    return parsed_lm(R"("model_type": "llama", "max_position_embeddings": 64, )" + entries);
  };
  const CausalLmConfig plain = scaling(R"("rope_theta": 500, "rope_scaling": null)");
  EXPECT_EQ(plain.rotary_base, 500);
  EXPECT_FALSE(plain.rotary_scaling);
  EXPECT_EQ(scaling(R"("rope_parameters": {"rope_type": "default", "rope_theta": 700.0})").rotary_base, 700);
  EXPECT_EQ(scaling(R"("rope_scaling": {"type": "linear", "factor": 4})")
                .rotary_scaling->get_if<LinearRotaryScaling>()
                ->factor,
            4);
  const std::string llama3 =
      R"({"rope_type": "llama3", "factor": 32, "low_freq_factor": 2, "high_freq_factor": 5)";
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const CausalLmConfig lm =
        scaling(fmt::format(R"("{}": {}, "original_max_position_embeddings": 16}})", key, llama3));
    const auto* options = lm.rotary_scaling->get_if<Llama3RotaryScaling>();
    EXPECT_EQ(std::tie(options->factor, options->low_frequency, options->high_frequency),
              std::make_tuple(32, 2, 5));
    EXPECT_EQ(options->original_length, 16);
  }
  EXPECT_THAT(message([&] { scaling(R"("rope_scaling": {"rope_type": "yarn", "factor": 4})"); }),
              HasSubstr("config.json: rope_scaling: `rope_type` is yarn, which cannot be converted"));
  EXPECT_THAT(message([&] { scaling(R"("rope_scaling": {"rope_type": "linear"})"); }),
              HasSubstr("rope_scaling: there is no `factor`"));
  EXPECT_THAT(message([&] { scaling(R"("rope_theta": -1)"); }), HasSubstr("`rope_theta` is -1, no number"));
  EXPECT_THAT(message([&] { scaling(R"("partial_rotary_factor": 0.5)"); }), HasSubstr("only 1.0 can be"));
}

CausalLmConfig windowed(const std::string& type, const std::string& entries) {
  return parse_causal_lm_config(R"({"hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 8,
      "num_key_value_heads": 8, "intermediate_size": 8, "vocab_size": 9, "model_type": ")" +
                                    type + "\", " + entries + "}",
                                "config.json");
}

void expect_windows(const CausalLmConfig& lm, const std::vector<bool>& local, std::optional<int64_t> window) {
  EXPECT_EQ(lm.local, local);
  EXPECT_EQ(lm.window, window);
}

TEST(CausalLmConfig, WindowsAreThoseOfEachModel) {
  expect_windows(windowed("mistral", R"("sliding_window": 5)"), {true}, 5);
  expect_windows(windowed("mistral", R"("max_position_embeddings": 8192)"), {true}, 4096);
  expect_windows(windowed("mistral", R"("max_position_embeddings": 4096)"), {false}, {});
  expect_windows(windowed("mistral", R"("sliding_window": null)"), {false}, {});
  EXPECT_EQ(windowed("mistral", R"("sliding_window": null)").family, CausalLmFamily::kLlama);
  expect_windows(windowed("llama", R"("sliding_window": 5)"), {false}, {});
  expect_windows(windowed("phi3", R"("sliding_window": 5)"), {true}, 5);
  expect_windows(windowed("phi3", R"("sliding_window": 4096)"), {false}, {});
  expect_windows(windowed("phi3", R"("bos_token_id": 1)"), {false}, {});
  for (const char* qwen : {"qwen2", "qwen3"}) {
    expect_windows(windowed(qwen, R"("sliding_window": 5, "max_window_layers": 0)"), {false}, {});
    const std::string used = R"("use_sliding_window": true, "sliding_window": 5, )";
    expect_windows(windowed(qwen, used + R"("max_window_layers": 0)"), {true}, 5);
    expect_windows(windowed(qwen, used + R"("max_window_layers": 3)"), {false, false, false, true}, 5);
    expect_windows(windowed(qwen, used + R"("num_experts": 0)"), {false}, {});
    expect_windows(windowed(qwen, used + R"("max_window_layers": 0, "layer_types": ["sliding_attention",
        "full_attention", "sliding_attention", "full_attention"])"),
                   {true, false}, 5);
  }
  const auto refused = [&](const std::string& type, const std::string& entries) {
    return message([&] { windowed(type, entries); });
  };
  const std::string types = R"("layer_types": ["sliding_attention", "full_attention", "full_attention", )";
  EXPECT_THAT(refused("mistral", types + R"("full_attention"])"), HasSubstr("other windows than a mistral"));
  EXPECT_THAT(refused("qwen3", types + R"("full_attention"])"), HasSubstr("other windows than a qwen3"));
  EXPECT_THAT(refused("qwen2", types + R"("chunked_attention"])"), HasSubstr("has \"chunked_attention\""));
  EXPECT_THAT(refused("qwen2", R"("layer_types": ["full_attention"])"), HasSubstr("is no list of 4 types"));
  EXPECT_THAT(refused("phi3", R"("resid_pdrop": 0.5)"), HasSubstr("`resid_pdrop` is 0.5, and only 0.0 can"));
  EXPECT_THAT(refused("mistral", R"("sliding_window": 0)"), HasSubstr("`sliding_window` is 0, no size"));
}

TEST(CausalLmConfig, WindowsOfModelsWithExpertsAreThoseOfEachModel) {
  const auto experts = [](const std::string& type, const std::string& entries) {
    return windowed(type, R"("num_experts": 9, "moe_intermediate_size": 8,
        "shared_expert_intermediate_size": 8, )" +
                              entries);
  };
  expect_windows(experts("mixtral", R"("sliding_window": 5)"), {true}, 5);
  expect_windows(experts("mixtral", R"("sliding_window": null)"), {false}, {});
  expect_windows(experts("mixtral", R"("bos_token_id": 1)"), {false}, {});
  expect_windows(experts("olmoe", R"("sliding_window": 5)"), {false}, {});
  const std::string used = R"("use_sliding_window": true, "sliding_window": 5, )";
  expect_windows(experts("qwen3_moe", R"("sliding_window": 5)"), {false}, {});
  expect_windows(experts("qwen3_moe", used + R"("max_window_layers": 3)"), {true}, 5);
  expect_windows(experts("qwen2_moe", R"("sliding_window": 0)"), {false}, {});
  expect_windows(experts("qwen2_moe", used + R"("bos_token_id": 1)"), {true, false}, 5);
  expect_windows(experts("qwen2_moe", used + R"("max_window_layers": 2)"), {true, false, false, false}, 5);
  expect_windows(experts("qwen2_moe", used + R"("layer_types": ["full_attention", "full_attention",
      "sliding_attention", "sliding_attention"])"),
                 {false, false, true, true}, 5);
}

TEST(CausalLmConfig, GemmasHaveTheDefaultsOfTransformers) {
  const auto gemma = [](const std::string& type, const std::string& entries = R"("bos_token_id": 2)") {
    return parse_causal_lm_config(
        R"({"hidden_size": 16, "num_hidden_layers": 12, "num_attention_heads": 4, "intermediate_size": 8,
            "num_key_value_heads": 2, "vocab_size": 9, "model_type": ")" +
            type + "\", " + entries + "}",
        "config.json");
  };
  const CausalLmConfig first = gemma("gemma", R"("hidden_act": "gelu")"), second = gemma("gemma2"),
                       third = gemma("gemma3_text");
  for (const CausalLmConfig& lm : {first, second, third}) {
    EXPECT_TRUE(lm.tied);
    EXPECT_EQ(lm.activation, Activation::kGelu);
    EXPECT_EQ(lm.head_size, 256);
    EXPECT_EQ(lm.scaling_size, std::nullopt);
  }
  EXPECT_EQ(first.window, std::nullopt);
  EXPECT_EQ(second.local, (std::vector<bool>{true, false}));
  EXPECT_EQ(third.local, (std::vector<bool>{true, true, true, true, true, false}));
  EXPECT_EQ(std::tie(second.window, third.window), std::make_tuple(4096, 4096));
  EXPECT_EQ(std::tie(second.attention_soft_cap, second.logit_soft_cap), std::make_tuple(50, 30));
  EXPECT_EQ(std::tie(third.attention_soft_cap, third.logit_soft_cap),
            std::make_tuple(std::nullopt, std::nullopt));
  EXPECT_EQ(std::tie(third.rotary_base, third.local_rotary_base), std::make_tuple(1e6, 1e4));
  EXPECT_EQ(gemma("gemma2", R"("final_logit_softcapping": null)").logit_soft_cap, std::nullopt);
  EXPECT_EQ(gemma("gemma2", R"("query_pre_attn_scalar": 144)").scaling_size, 144);
  EXPECT_EQ(gemma("gemma3_text", R"("sliding_window_pattern": 3)").local,
            (std::vector<bool>{true, true, false}));
  const CausalLmConfig old = gemma("gemma3_text", R"("rope_theta": 500, "rope_local_base_freq": 100,
      "rope_scaling": {"rope_type": "linear", "factor": 8})");
  EXPECT_EQ(std::tie(old.rotary_base, old.local_rotary_base), std::make_tuple(500, 100));
  EXPECT_TRUE(old.rotary_scaling);
  EXPECT_THAT(message([&] {
                gemma("gemma3_text", R"("rope_parameters": {"full_attention": {"rope_type": "default"},
                    "sliding_attention": {"rope_type": "linear", "factor": 2}})");
              }),
              HasSubstr("sliding_attention: `rope_type` is \"linear\""));
  EXPECT_THAT(message([&] { gemma("gemma2", R"("use_bidirectional_attention": true)"); }),
              HasSubstr("only false can be converted"));
  EXPECT_THAT(message([&] {
                gemma("gemma2",
                      R"("sliding_window": null, "layer_types": [)" +
                          std::string(
                              R"("sliding_attention", "full_attention", "full_attention", "full_attention",
                     "full_attention", "full_attention", "full_attention", "full_attention",
                     "full_attention", "full_attention", "full_attention", "full_attention"])"));
              }),
              HasSubstr("other windows than a gemma2"));
}

TEST(CausalLmConfig, WhatCannotBeBuiltIsRefused) {
  const auto json = [](const std::string& type, const std::string& entries) {
    return message([&] { parsed_lm(fmt::format(R"("model_type": "{}", {})", type, entries)); });
  };
  EXPECT_EQ(json("phi", R"("eos_token_id": 1)"),
            "config.json: `model_type` is phi, which cannot be converted");
  EXPECT_THAT(json("llama", R"("hidden_act": "mish")"), HasSubstr("`hidden_act` is mish"));
  EXPECT_THAT(json("llama", R"("head_dim": 5)"), HasSubstr("heads of 5 entries have no rotary positions"));
  EXPECT_THAT(json("llama", R"("bos_token_id": 9)"), HasSubstr("`bos_token_id` is 9, no id of a token"));
  EXPECT_THAT(json("qwen2", R"("num_key_value_heads": 3)"), HasSubstr("`num_key_value_heads` occurs twice"));
  EXPECT_THAT(json("gpt2", R"("scale_attn_weights": false)"), HasSubstr("only true can be converted"));
  EXPECT_THAT(json("gpt2", R"("scale_attn_by_inverse_layer_idx": true)"), HasSubstr("only false can be"));
  EXPECT_THAT(json("gpt2", R"("n_embd": 10, "n_head": 3)"),
              HasSubstr("`n_embd` 10 cannot be divided among 3 heads"));
  EXPECT_EQ(message([&] { parse_causal_lm_config(R"({"model_type": "llama", "vocab_size": 9})", "c"); }),
            "c: it has no `hidden_size`");
}

TEST(CausalLmConfig, ExpertsHaveTheDefaultsOfTransformers) {
  const CausalLmConfig mixtral = parsed_lm(R"("model_type": "mixtral", "num_local_experts": 6)");
  EXPECT_EQ(mixtral.experts->count, 6);
  EXPECT_EQ(mixtral.experts->per_token, 2);
  EXPECT_EQ(mixtral.experts->balance_coef, 0.001);
  EXPECT_EQ(mixtral.epsilon, 1e-5);
  EXPECT_EQ(mixtral.rotary_base, 1e6);
  const CausalLmConfig olmoe = parsed_lm(R"("model_type": "olmoe", "num_local_experts": 9)");
  EXPECT_EQ(olmoe.experts->per_token, 8);
  EXPECT_EQ(olmoe.experts->balance_coef, 0.01);
  EXPECT_FALSE(olmoe.experts->normalized);
}

TEST(CausalLmConfig, ExpertsThatCannotBeBuiltAreRefused) {
  const auto json = [](const std::string& type, const std::string& entries) {
    return message([&] {
      parsed_lm(fmt::format(R"("model_type": "{}", "moe_intermediate_size": 8, {})", type, entries));
    });
  };
  EXPECT_THAT(json("mixtral", R"("eos_token_id": 1)"), HasSubstr("it has no `num_local_experts`"));
  EXPECT_THAT(json("mixtral", R"("num_local_experts": 2, "num_experts_per_tok": 3)"),
              HasSubstr("`num_experts_per_tok` is 3, and there are 2 experts"));
  EXPECT_THAT(json("qwen3_moe", R"("num_experts": 4, "num_local_experts": 5)"),
              HasSubstr("`num_experts` is 4, and `num_local_experts` is 5"));
  EXPECT_THAT(json("qwen3_moe", R"("num_experts": 9, "mlp_only_layers": [0])"),
              HasSubstr("`mlp_only_layers` is [0], and only [] can be converted"));
  EXPECT_THAT(json("qwen3_moe", R"("num_experts": 9, "decoder_sparse_step": 2)"), HasSubstr("only 1 can be"));
  EXPECT_THAT(json("qwen2_moe", R"("num_experts": 9)"),
              HasSubstr("it has no `shared_expert_intermediate_size`"));
  EXPECT_THAT(json("olmoe", R"("num_experts": 9, "clip_qkv": 8.0)"), HasSubstr("only null can be converted"));
  EXPECT_THAT(json("olmoe", R"("num_experts": 9, "head_dim": 4)"), HasSubstr("only 8 can be converted"));
}

/// The message for a model in whose configuration `to` stands in the place of `from`.
std::string refused(CausalLmFamily family, const std::string& from, const std::string& to) {
  std::string text = yaml(small_lm(family));
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  return message([&] { causal_lm_of(ConfigText(text, "config.yaml").load()); });
}

TEST(CausalLmConfig, OtherModelsAreRefusedWithTheDifference) {
  using enum CausalLmFamily;
  EXPECT_THAT(refused(kLlama, "type: lm", "type: delimited_lm"), HasSubstr("it reads inputs as a whole"));
  EXPECT_THAT(refused(kLlama, "positions: none", "positions: learned"), HasSubstr("and learned positions"));
  EXPECT_THAT(refused(kLlama, "rotary: true, ", ""), HasSubstr("and no rotary positions"));
  EXPECT_THAT(refused(kLlama, "[gelu, linear]", "gelu"), HasSubstr("and no gated units"));
  EXPECT_THAT(refused(kLlama, "[gelu, linear]", "[elu, linear]"), HasSubstr("the activation [elu, linear]"));
  EXPECT_THAT(refused(kGpt2, "scale_logits: false", "scale_like_classifier: true"),
              HasSubstr("its embeddings are scaled as only those of a Gemma"));
  EXPECT_THAT(refused(kLlama, "bias: false, dropout", "soft_cap: 30, bias: false, dropout"),
              HasSubstr("SelfAttention has a soft_cap"));
  EXPECT_THAT(refused(kLlama, "bias: false, dropout", "scaling_size: 30, bias: false, dropout"),
              HasSubstr("SelfAttention has a scaling_size"));
  EXPECT_THAT(refused(kLlama, "  z_loss: 0", "  logit_soft_cap: 30\n  z_loss: 0"),
              HasSubstr("its logits have a soft cap"));
  EXPECT_THAT(refused(kLlama, "call_layer, residual", "call_layer, rms_norm, residual"),
              HasSubstr("norms stand behind its layers"));
  EXPECT_THAT(refused(kGemma2, "call_layer, rms_norm, residual", "call_layer, residual"),
              HasSubstr("local attention without norms behind the layers"));
  EXPECT_THAT(refused(kGemma, "[gelu, linear]", "[gelu_erf, linear]"),
              HasSubstr("which a Gemma 1 cannot say"));
  EXPECT_THAT(refused(kGemma3, "bias: false, dropout", "soft_cap: 30, bias: false, dropout"),
              HasSubstr("has other options than the first of these layers"));
  EXPECT_THAT(refused(kGemma2, "rotary_base: 10000", "rotary_base: 500"),
              HasSubstr("LocalSelfAttention has other rotary positions than SelfAttention"));
  EXPECT_THAT(refused(kLlama, "fold_scaling_into_initializer: false", "fold_scaling_into_initializer: true"),
              HasSubstr("SelfAttention has fold_scaling_into_initializer"));
  EXPECT_THAT(refused(kLlama, "residual], final: [rms_norm]", "residual], final: [layer_norm]"),
              HasSubstr("`sublayers.final` is [layer_norm]"));
  EXPECT_THAT(refused(kLlama, "[rms_norm, call_layer, residual]", "[call_layer, residual, rms_norm]"),
              HasSubstr("`sublayers.per_layer` is [call_layer, residual, rms_norm]"));
  EXPECT_THAT(refused(kLlama, "[SelfAttention, DenseReluDense]", "[DenseReluDense]"),
              HasSubstr("its block is [DenseReluDense]"));
  EXPECT_THAT(refused(kQwen2, "bias: false, kernel", "bias: true, kernel"),
              HasSubstr("biases of DenseReluDense"));
  EXPECT_THAT(refused(kQwen3, "bias: false, dropout", "bias: qkv, dropout"),
              HasSubstr("qk_norm with `bias: qkv`"));
  EXPECT_THAT(refused(kQwen3, "{epsilon: 0.0001", "{epsilon: 1e-05"),
              HasSubstr("beside an epsilon of 1e-05"));
  EXPECT_THAT(refused(kQwen3, "qk_norm: true", "qk_norm: all_heads"),
              HasSubstr("qk_norm of all heads without experts"));
  EXPECT_THAT(refused(kGpt2, "positions: learned", "positions: none"), HasSubstr("and no learned positions"));
  EXPECT_THAT(refused(kGpt2, "bias: true, dropout", "bias: qkv, dropout"),
              HasSubstr("no biases in SelfAttention"));
  EXPECT_THAT(refused(kGpt2, "key_value_size: 6", "key_value_size: 8"),
              HasSubstr("4 heads of 8 entries for vectors of 24"));
  EXPECT_THAT(refused(kGpt2, "num_heads: 4", "num_heads: 4, num_memory_heads: 2"),
              HasSubstr("grouped heads"));
  const std::string two = "[LocalSelfAttention, DenseReluDense, ";
  EXPECT_THAT(refused(kMistral, "[LocalSelfAttention, ", two + "SelfAttention: {num_heads: 4}, "),
              HasSubstr("SelfAttention has fold_scaling_into_initializer"));
  EXPECT_THAT(refused(kMistral, "[LocalSelfAttention, ", two + "LocalSelfAttention: {radius: 4}, "),
              HasSubstr("its windows are of several lengths"));
  EXPECT_THAT(refused(kMistral, "[LocalSelfAttention, ", two + "LocalSelfAttention: {num_heads: 2}, "),
              HasSubstr("LocalSelfAttention has other options than the first"));
  EXPECT_THAT(refused(kMistral, "DenseReluDense]",
                      "DenseReluDense, LocalSelfAttention, DenseReluDense: {hidden_size: 5}]"),
              HasSubstr("DenseReluDense has other options than the first"));
  EXPECT_THAT(refused(kMistral, "bias: false, dropout", "bias: true, dropout"),
              HasSubstr("biases beside local attention"));
}

TEST(CausalLmConfig, OtherExpertsAreRefusedWithTheDifference) {
  using enum CausalLmFamily;
  const std::string more = "experts_per_token: 2";
  EXPECT_THAT(refused(kMixtral, "dispatch: dropless", "dispatch: capacity"),
              HasSubstr("MoE1D has a capacity"));
  EXPECT_THAT(refused(kMixtral, more, more + ", score: sigmoid"), HasSubstr("sigmoids as scores"));
  EXPECT_THAT(refused(kMixtral, more, more + ", selection_bias: true"), HasSubstr("a selection_bias"));
  EXPECT_THAT(refused(kMixtral, more, more + ", expert_groups: 3, groups_per_token: 2, group_score: max"),
              HasSubstr("expert_groups"));
  EXPECT_THAT(refused(kMixtral, more, more + ", scale: 2"), HasSubstr("a scale of its weights"));
  EXPECT_THAT(refused(kMixtral, more, more + ", weight_on: input"), HasSubstr("weights on inputs"));
  EXPECT_THAT(refused(kMixtral, more, "experts_per_token: 4"), HasSubstr("there are 3 experts"));
  EXPECT_THAT(refused(kMixtral, "[gelu, linear]", "[elu, linear]"), HasSubstr("MoE1D has the activation"));
  EXPECT_THAT(refused(kMixtral, "normalize: true", "normalize: false"), HasSubstr("do not add up to 1"));
  EXPECT_THAT(refused(kMixtral, "bias: false", "bias: true"), HasSubstr("biases in SelfAttention"));
  EXPECT_THAT(refused(kQwen2Moe, "shared_gate: true", "shared_gate: false"), HasSubstr("without a gate"));
  EXPECT_THAT(refused(kQwen2Moe, "bias: qkv", "bias: true"), HasSubstr("biases of all projections"));
  EXPECT_THAT(refused(kQwen3Moe, more, more + ", shared_experts: 1, shared_gate: true"),
              HasSubstr("shared ones beside qk_norm"));
  EXPECT_THAT(refused(kGemma, "[SelfAttention, DenseReluDense]",
                      "[SelfAttention, MoE1D: {gating: top_k, activation: [swish, linear]}]"),
              HasSubstr("scaled as those of a Gemma, and it has experts"));
  const std::string one = "[SelfAttention, MoE1D]";
  EXPECT_THAT(refused(kMixtral, one, "[SelfAttention, MoE1D, SelfAttention, DenseReluDense]"),
              HasSubstr("its block is [SelfAttention, MoE1D, SelfAttention, DenseReluDense]"));
  EXPECT_THAT(refused(kMixtral, one, "[SelfAttention, MoE1D, SelfAttention, MoE1D: {num_experts: 4}]"),
              HasSubstr("MoE1D has other options than the first"));
  EXPECT_THAT(refused(kQwen3Moe, "bias: false", "bias: qkv"), HasSubstr("qk_norm with `bias: qkv`"));
  const auto with_local = [&](CausalLmFamily family, const std::string& block) {
    std::string text = yaml(small_lm(family));
    text.replace(text.find(one), one.size(), block);
    const size_t begin = text.find("    SelfAttention:"), end = text.find("    MoE1D:");
    text.insert(begin, "    Local" + text.substr(begin + 4, end - begin - 4));
    return message([&] { causal_lm_of(ConfigText(text, "config.yaml").load()); });
  };
  EXPECT_THAT(with_local(kMixtral, "[SelfAttention, MoE1D, LocalSelfAttention, MoE1D]"),
              HasSubstr("local attention in some of its layers without shared ones"));
  EXPECT_THAT(with_local(kOlmoe, "[LocalSelfAttention, MoE1D]"),
              HasSubstr("local attention beside qk_norm of all heads"));
  EXPECT_THAT(refused(kOlmoe, "key_value_size: 6", "key_value_size: 8"),
              HasSubstr("all 4 heads of 8 entries for vectors of 24"));
}

TEST(CausalLmConfig, AllStepsOfAdamHaveOneLength) {
  for (const CausalLmFamily family : kFamilies)
    EXPECT_THAT(yaml(small_lm(family)), HasSubstr("scaled_steps: false"));
}

TEST(CausalLmNames, EveryVariableOfAModelHasAPlace) {
  for (const CausalLmFamily family : kFamilies) {
    std::set<std::tuple<std::string, int64_t, std::string>> places;
    const std::vector<Variable> variables = ConfigText(yaml(small_lm(family)), "lm").variables();
    for (const Variable& variable : variables) {
      const std::optional<CausalLmTensor> tensor = causal_lm_tensor(variable.name, small_lm(family));
      ASSERT_TRUE(tensor) << variable.name;
      places.emplace(tensor->name, tensor->third.value_or(-1),
                     tensor->experts ? tensor->experts->of_each : "");
    }
    EXPECT_EQ(places.size(), variables.size());
  }
  const auto name = [](const char* variable, CausalLmFamily family) {
    return causal_lm_tensor(variable, small_lm(family))->name;
  };
  EXPECT_EQ(name("transformer/block_011/layer_001/DenseReluDense/wi_0/kernel", CausalLmFamily::kLlama),
            "model.layers.11.mlp.gate_proj.weight");
  EXPECT_EQ(name("transformer/block_003/layer_000/SelfAttention/k_norm/scale", CausalLmFamily::kQwen3),
            "model.layers.3.self_attn.k_norm.weight");
  EXPECT_EQ(name("transformer/block_000/layer_000/SelfAttention/v_bias", CausalLmFamily::kGpt2),
            "transformer.h.0.attn.c_attn.bias");
  EXPECT_EQ(name("transformer/block_002/layer_002/SelfAttention/q", CausalLmFamily::kGemma2),
            "model.layers.5.self_attn.q_proj.weight");
  EXPECT_EQ(name("transformer/block_002/layer_001/rms_norm_1/scale", CausalLmFamily::kGemma2),
            "model.layers.4.post_feedforward_layernorm.weight");
  EXPECT_EQ(name("transformer/block_002/layer_001/rms_norm/scale", CausalLmFamily::kGemma),
            "model.layers.2.post_attention_layernorm.weight");
  for (const auto& [family, is_less_one] :
       {std::pair(CausalLmFamily::kGemma3, true), {CausalLmFamily::kQwen3, false}}) {
    for (const char* norm :
         {"block_000/layer_000/SelfAttention/q_norm", "block_001/layer_000/rms_norm", "rms_norm"})
      EXPECT_EQ(causal_lm_tensor(fmt::format("transformer/{}/scale", norm), small_lm(family))->is_less_one,
                is_less_one);
    EXPECT_FALSE(causal_lm_tensor("transformer/embedding", small_lm(family))->is_less_one);
  }
  EXPECT_FALSE(
      causal_lm_tensor("transformer/block_002/layer_004/SelfAttention/q", small_lm(CausalLmFamily::kGemma2)));
  for (const char* other : {"transformer/block_000/layer_000/SelfAttention/kv", "transformer/block_000",
                            "transformer/", "embedding"})
    EXPECT_FALSE(causal_lm_tensor(other, small_lm(CausalLmFamily::kLlama))) << other;
}

/// Language models of 9 tokens a to i, of which e begins and g ends a text.
class CausalLmImports : public testing::HuggingFaceDirectory {
 protected:
  CausalLmImports() { write("hf/tokenizer.json", tokenizer("abcdefghi")); }

  static std::string tokenizer(const std::string& letters) {
    nlohmann::json json = {{"model", {{"type", "BPE"}}}, {"added_tokens", nlohmann::json::array()}};
    for (const char letter : letters) json["model"]["vocab"][std::string(1, letter)] = letter - 'a';
    return json.dump();
  }
  /// A model of which entry i of the embedding is i, and of the softmax weights -i.
  ModelWeights counted(CausalLmFamily family, const std::string& begin, int64_t divisor = 1) const {
    std::string config = causal_lm_yaml(
        small_lm(family),
        {.vocabulary = fmt::format(
             "{{type: hugging_face, path: {}/tokenizer.json, begin: {}, end: g, size: 9}}", hf(), begin),
         .target = {"/models/a"},
         .source = "lm"});
    const auto set = [&](const std::string& from, const std::string& to) {
      config.replace(config.find(from), from.size(), to);
    };
    set("vocab_divisor: 1", fmt::format("vocab_divisor: {}", divisor));
    if (begin == "null") set("predict_padding: true", "predict_padding: false");
    ModelWeights model = model_of(config);
    for (ModelWeight& weight : model.weights) {
      const int64_t sign = weight.name.ends_with("logits/kernel") ? -1 : 1;
      for (int64_t i = 0; i < weight.value.shape.size(); ++i)
        weight.value.data<float>()[i] = static_cast<float>(sign * i);
    }
    return model;
  }
  /// The first entries of the rows of a tensor.
  std::vector<float> first_entries(const std::string& tensor) const {
    const HuggingFaceFiles files(hf());
    const StoredTensor& stored = files.at(tensor);
    const std::vector<float> values = stored.values<float>();
    std::vector<float> first;
    for (int64_t row = 0; row < stored.shape[0]; ++row)
      first.push_back(values[static_cast<size_t>(row * stored.shape[1])]);
    return first;
  }
  /// Writes the experts of a Mixtral as transformers 5 does with save_original_format=False.
  void fuse_experts() const {
    const std::string path = hf() + "/model.safetensors";
    std::map<std::string, std::vector<float>> fused;
    const auto append = [&](const StoredTensor& tensor, const std::string& name) {
      std::ranges::copy(tensor.values<float>(), std::back_inserter(fused[name]));
    };
    std::map<std::string, std::vector<int64_t>> shapes;
    {
      const HuggingFaceFiles files(hf());
      for (const std::string& name : files.names()) {
        const size_t at = name.find("block_sparse_moe.");
        const bool is_of_expert = name.find(".experts.") != std::string::npos;
        const std::string renamed = at == std::string::npos ? name : name.substr(0, at) + "mlp.gate.weight";
        if (is_of_expert) continue;
        append(files.at(name), renamed);
        shapes[renamed] = files.at(name).shape;
      }
      for (int i = 0; i < 2 * 3; ++i) {
        const std::string layer = fmt::format("model.layers.{}.", i / 3),
                          expert = fmt::format("{}block_sparse_moe.experts.{}.", layer, i % 3),
                          wi = layer + "mlp.experts.gate_up_proj", wo = layer + "mlp.experts.down_proj";
        append(files.at(expert + "w1.weight"), wi);
        append(files.at(expert + "w3.weight"), wi);
        append(files.at(expert + "w2.weight"), wo);
        shapes[wi] = {3, 80, 24};
        shapes[wo] = {3, 24, 40};
      }
    }
    std::vector<StoredTensor> tensors;
    for (const auto& [name, values] : fused)
      tensors.push_back({.name = name, .shape = shapes[name], .data = std::as_bytes(std::span(values))});
    write_safetensors(path, tensors, {});
  }

  HuggingFaceImport imported() const { return import_causal_lm(hf(), target()); }
  void expect_weights(const ModelWeights& model) const {
    const HuggingFaceImport import = imported();
    ASSERT_EQ(import.model.weights.size(), model.weights.size());
    for (size_t i = 0; i < model.weights.size(); ++i)
      EXPECT_EQ(import.model.weights[i].value.bytes, model.weights[i].value.bytes) << model.weights[i].name;
  }
  /// The tokens that begin and end a text.
  static std::pair<std::optional<std::string>, std::string> ends_of(const HuggingFaceImport& import) {
    const Config config = ConfigText(import.model.config, "model").load();
    const LanguageVocabulary language = by_side(*config.data.vocabulary).targets;
    const auto* vocabulary = language.get_if<HuggingFaceOptions>();
    return {vocabulary->begin, vocabulary->end};
  }
  static bool predicts_padding(const HuggingFaceImport& import) {
    return causal_lm_of(ConfigText(import.model.config, "model").load()).predicts_padding;
  }
};

using Ends = std::pair<std::optional<std::string>, std::string>;

TEST_F(CausalLmImports, RowsAreThoseOfTheIds) {
  // Rows of 24 entries: id 0 is e, 1 is g, the others are in their places but for a and b, which made room.
  const ModelWeights model = counted(CausalLmFamily::kLlama, "e");
  EXPECT_THAT(export_causal_lm(model, "run", hf()), IsEmpty());
  EXPECT_THAT(first_entries("model.embed_tokens.weight"),
              ElementsAre(4 * 24, 6 * 24, 2 * 24, 3 * 24, 0, 5 * 24, 24, 7 * 24, 8 * 24));
  EXPECT_THAT(first_entries("lm_head.weight"), ElementsAre(-4, -6, -2, -3, 0, -5, -1, -7, -8));
  EXPECT_EQ(json()["bos_token_id"], 4);
  EXPECT_EQ(json()["eos_token_id"], 6);
  const HuggingFaceImport import = imported();
  EXPECT_EQ(ends_of(import), Ends("e", "g"));
  EXPECT_TRUE(predicts_padding(import));
  for (size_t i = 0; i < model.weights.size(); ++i)
    EXPECT_EQ(import.model.weights[i].value.bytes, model.weights[i].value.bytes) << model.weights[i].name;
}

TEST_F(CausalLmImports, WithoutBeginTextsBeginWithTheVectorOfTheEnd) {
  const ModelWeights model = counted(CausalLmFamily::kGpt2, "null");
  EXPECT_THAT(export_causal_lm(model, "run", hf()), ElementsAre(HasSubstr("row 0 of the embedding")));
  // Id 0 is new, 1 is g; b stands in place of g, and a behind all others.
  EXPECT_THAT(first_entries("transformer.wte.weight"),
              ElementsAre(9 * 24, 6 * 24, 2 * 24, 3 * 24, 4 * 24, 5 * 24, 24, 7 * 24, 8 * 24));
  EXPECT_EQ(json()["bos_token_id"], 6);
  EXPECT_EQ(json()["vocab_size"], 9);
  const HuggingFaceImport import = imported();
  EXPECT_EQ(ends_of(import), Ends(std::nullopt, "g"));
  EXPECT_FALSE(predicts_padding(import));
  for (const ModelWeight& weight : import.model.weights) {
    const float* values = weight.value.data<float>();
    if (weight.name == "transformer/embedding") {
      EXPECT_EQ(values[0], values[24]);
    } else if (weight.name == "transformer/logits/kernel") {
      EXPECT_EQ(values[0], 0);
    }
  }
  write("model/tokenizer.json", import.files[0].second);
  EXPECT_THAT(export_causal_lm(import.model, "run", hf()), IsEmpty());
}

TEST_F(CausalLmImports, RowsBeyondTheVocabularyStayBehindTheOthers) {
  export_causal_lm(counted(CausalLmFamily::kQwen2, "null", 16), "run", hf());
  EXPECT_THAT(first_entries("model.embed_tokens.weight"),
              ElementsAre(9 * 24, 6 * 24, 2 * 24, 3 * 24, 4 * 24, 5 * 24, 24, 7 * 24, 8 * 24, 10 * 24,
                          11 * 24, 12 * 24, 13 * 24, 14 * 24, 15 * 24));
  EXPECT_EQ(json()["vocab_size"], 15);
}

TEST_F(CausalLmImports, QueriesKeysAndValuesOfAGpt2AreOneTensor) {
  const ModelWeights model = counted(CausalLmFamily::kGpt2, "e");
  export_causal_lm(model, "run", hf());
  const HuggingFaceFiles files(hf());
  const StoredTensor& tensor = files.at("transformer.h.1.attn.c_attn.weight");
  EXPECT_THAT(tensor.shape, ElementsAre(24, 72));
  // Row 1 of each third is the second of the variable.
  EXPECT_EQ(tensor.values<float>()[72], 24);
  EXPECT_EQ(tensor.values<float>()[72 + 24], 24);
  EXPECT_EQ(tensor.values<float>()[72 + 49], 25);
  expect_weights(model);
}

TEST_F(CausalLmImports, KernelsOfExpertsAreTensorsOfTheirOwn) {
  const ModelWeights model = counted(CausalLmFamily::kMixtral, "e");
  export_causal_lm(model, "run", hf());
  {
    const HuggingFaceFiles files(hf());
    const StoredTensor& tensor = files.at("model.layers.1.block_sparse_moe.experts.2.w3.weight");
    EXPECT_THAT(tensor.shape, ElementsAre(40, 24));
    // Expert 2 of [3, 24, 40], transposed.
    EXPECT_EQ(tensor.values<float>()[1], 2 * 24 * 40 + 40);
    EXPECT_EQ(tensor.values<float>()[24], 2 * 24 * 40 + 1);
  }
  expect_weights(model);
  fuse_experts();
  expect_weights(model);
  change({{"intermediate_size", 41}});
  EXPECT_THAT(message([&] { imported(); }),
              HasSubstr("gate_up_proj` is float32 [3, 80, 24], and config.json says float32 [3, 82, 24]"));
}

TEST_F(CausalLmImports, EachExpertHasItsTensors) {
  for (const CausalLmFamily family : kFamilies) {
    if (!has_experts(family)) continue;
    const ModelWeights model = counted(family, "e");
    export_causal_lm(model, "run", hf());
    expect_weights(model);
    change({{"router_jitter_noise", 0.1}});
    EXPECT_THAT(imported().notes, ElementsAre(HasSubstr("`router_jitter_noise` is left out")));
    change({{"num_local_experts", nullptr}, {"num_experts", 4}});
    EXPECT_THAT(message([&] { imported(); }), HasSubstr("gate.weight` is float32 [3, 24]"));
  }
}

TEST_F(CausalLmImports, AFileOfAGpt2MayHaveShortNamesAndMasks) {
  export_causal_lm(counted(CausalLmFamily::kGpt2, "null"), "run", hf());
  const std::vector<std::byte> expected = imported().model.weights[5].value.bytes;
  const std::string path = hf() + "/model.safetensors";
  {
    const SafetensorsFile file(path);
    std::vector<StoredTensor> tensors = file.tensors();
    std::vector<std::vector<std::byte>> kept;
    for (StoredTensor& tensor : tensors) {
      kept.emplace_back(tensor.data.begin(), tensor.data.end());
      tensor.data = kept.back();
      if (tensor.name.starts_with("transformer.")) tensor.name.erase(0, std::string("transformer.").size());
    }
    StoredTensor mask = tensors[0];
    mask.name = "h.0.attn.bias";
    tensors.push_back(mask);
    write_safetensors(path, tensors, {});
  }
  EXPECT_EQ(imported().model.weights[5].value.bytes, expected);
}

TEST_F(CausalLmImports, TheTokeniserSaysWhatEndsAText) {
  export_causal_lm(counted(CausalLmFamily::kLlama, "e"), "run", hf());
  change({{"eos_token_id", {5, 6}}});
  EXPECT_EQ(ends_of(imported()), Ends("e", "f"));
  write("hf/tokenizer_config.json", R"({"eos_token": {"content": "h"}, "bos_token": null})");
  EXPECT_EQ(ends_of(imported()), Ends("e", "h"));
  write("hf/tokenizer_config.json", R"({"eos_token": "e"})");
  EXPECT_EQ(ends_of(imported()), Ends(std::nullopt, "e"));
  write("hf/tokenizer_config.json", R"({"eos_token": "z"})");
  EXPECT_THAT(message([&] { imported(); }), HasSubstr("`eos_token` z is no token of tokenizer.json"));
  std::filesystem::remove(root_ / "hf/tokenizer_config.json");
  change({{"eos_token_id", nullptr}});
  EXPECT_THAT(message([&] { imported(); }), HasSubstr("does not say which token ends a text"));
}

TEST_F(CausalLmImports, ATokenThatBeginsTurnsBeginsNoText) {
  export_causal_lm(counted(CausalLmFamily::kLlama, "e"), "run", hf());
  write("hf/tokenizer_config.json", R"({"chat_template": "{{ 'e' }} once"})");
  EXPECT_EQ(ends_of(imported()).first, std::nullopt);
  write("hf/tokenizer_config.json", R"({"chat_template": "{{ 'e' }}"})");
  EXPECT_EQ(ends_of(imported()).first, "e");
  write("hf/chat_template.jinja", "e user e model");
  EXPECT_EQ(ends_of(imported()).first, std::nullopt);
}

TEST_F(CausalLmImports, TheEmbeddingHasRowsForAllTokens) {
  export_causal_lm(counted(CausalLmFamily::kLlama, "e"), "run", hf());
  write("hf/tokenizer.json", tokenizer("abcdefghij"));
  EXPECT_THAT(message([&] { imported(); }), HasSubstr("has 10 tokens, and the embedding only 9 rows"));
  write("hf/tokenizer.json", tokenizer("abcdeg"));
  EXPECT_EQ(ends_of(imported()), Ends("e", "g"));
  write("hf/tokenizer.json", tokenizer("abcdef"));
  EXPECT_THAT(message([&] { imported(); }), HasSubstr("tokenizer.json has no token with the id 6"));
}

TEST_F(CausalLmImports, AnAddedTokenWithoutARowIsPlainText) {
  export_causal_lm(counted(CausalLmFamily::kLlama, "e"), "run", hf());
  nlohmann::json json = nlohmann::json::parse(tokenizer("abcdefghi"));
  json["added_tokens"].push_back({{"content", "<image>"}, {"id", 9}});
  write("hf/tokenizer.json", json.dump());
  const HuggingFaceImport import = imported();
  EXPECT_EQ(ends_of(import), Ends("e", "g"));
  EXPECT_THAT(import.notes,
              ::testing::Contains(HasSubstr("`<image>` of tokenizer.json has no row in the embedding")));
}

TEST_F(CausalLmImports, WithoutATokeniserAnImportSaysHowToMakeIt) {
  export_causal_lm(counted(CausalLmFamily::kLlama, "e"), "run", hf());
  std::filesystem::remove(root_ / "hf/tokenizer.json");
  const HuggingFaceImport import = imported();
  EXPECT_THAT(import.notes, ElementsAre(HasSubstr("has no tokenizer.json, which texts need"),
                                        HasSubstr("`AutoTokenizer.from_pretrained(")));
  EXPECT_FALSE(ConfigText(import.model.config, "lm").variables().empty());
  EXPECT_THAT(message([&] { export_causal_lm(import.model, "run", hf()); }),
              HasSubstr("which says what ids the model has"));
}

TEST_F(CausalLmImports, SoftmaxWeightsAreThoseOfTheTensors) {
  export_causal_lm(counted(CausalLmFamily::kLlama, "e"), "run", hf());
  change({{"tie_word_embeddings", true}});
  EXPECT_FALSE(causal_lm_of(ConfigText(imported().model.config, "lm").load()).tied);
}

TEST_F(CausalLmImports, ATokenThatBeginsTextsHasAProbability) {
  ModelWeights model = counted(CausalLmFamily::kLlama, "e");
  const std::string key = "predict_padding: true";
  model.config.replace(model.config.find(key), key.size(), "predict_padding: false");
  EXPECT_THAT(message([&] { export_causal_lm(model, "run", hf()); }), HasSubstr("has no probability"));
}

TEST_F(CausalLmImports, TheVocabularyOfAnExportFitsItsFile) {
  const auto exported_with = [&](const std::string& from, const std::string& to) {
    ModelWeights model = counted(CausalLmFamily::kLlama, "e");
    model.config.replace(model.config.find(from), from.size(), to);
    return message([&] { export_causal_lm(model, "run", hf()); });
  };
  EXPECT_THAT(exported_with("end: g", "end: z"), HasSubstr("tokenizer.json has no token z"));
  EXPECT_THAT(exported_with("end: g", "end: e"), HasSubstr("e both begins and ends texts"));
  EXPECT_THAT(exported_with("size: 9", "size: 8"), HasSubstr("has 9 tokens, and `size` is 8"));
  EXPECT_THAT(exported_with("size: 9", "size: 10"),
              HasSubstr("the vocabulary has 10 ids, and the embedding 9 rows"));
}

TEST_F(CausalLmImports, OtherVocabulariesKeepTheirIds) {
  ModelWeights model = counted(CausalLmFamily::kLlama, "e");
  const size_t begin = model.config.find("{type: hugging_face"), end = model.config.find("}", begin);
  model.config.replace(begin, end + 1 - begin, "{type: sentencepiece, path: a.model, size: 9}");
  EXPECT_THAT(export_causal_lm(model, "run", hf()),
              ElementsAre(HasSubstr("without files of the vocabulary")));
  EXPECT_EQ(first_entries("model.embed_tokens.weight")[3], 3 * 24);
  EXPECT_EQ(json()["bos_token_id"], 0);
  EXPECT_EQ(json()["eos_token_id"], 1);
}

TEST_F(CausalLmImports, TensorsHaveTheShapesOfTheConfiguration) {
  export_causal_lm(counted(CausalLmFamily::kLlama, "e"), "run", hf());
  change({{"vocab_size", 10}});
  EXPECT_THAT(
      message([&] { imported(); }),
      HasSubstr(
          "tensor `model.embed_tokens.weight` is float32 [9, 24], and config.json says float32 [10, 24]"));
  export_causal_lm(counted(CausalLmFamily::kGpt2, "e"), "run", hf());
  change({{"n_embd", 20}});
  EXPECT_THAT(message([&] { imported(); }), HasSubstr("and config.json says float32 [9, 20]"));
  change({{"n_embd", 24}, {"n_layer", 1}});
  EXPECT_THAT(message([&] { imported(); }),
              HasSubstr("tensors that a language model of its config.json lacks"));
}

TEST_F(CausalLmImports, IdsOfATokeniserAreThoseOfItsTokens) {
  write(
      "hf/unigram.json",
      R"({"model": {"vocab": [["<unk>", 0.0], ["a", -1.5]]}, "added_tokens": [{"id": 7, "content": "<s>"}]})");
  const TokenizerIds ids(hf() + "/unigram.json");
  EXPECT_EQ(ids.id("a"), 1);
  EXPECT_EQ(ids.token(7), "<s>");
  EXPECT_EQ(ids.token(2), std::nullopt);
  EXPECT_EQ(ids.size(), 8);
  const auto damaged = [&](const std::string& text) {
    write("hf/damaged.json", text);
    return message([&] { TokenizerIds tokens(hf() + "/damaged.json"); });
  };
  EXPECT_THAT(damaged("{"), HasSubstr("damaged.json: it is no valid JSON"));
  EXPECT_THAT(damaged(R"({"model": {}})"), HasSubstr("`model` has no `vocab`"));
  EXPECT_THAT(damaged(R"({"model": {"vocab": {"a": -1}}})"), HasSubstr("token \"a\" has the id -1"));
  EXPECT_THAT(damaged(R"({"model": {"vocab": {}}, "added_tokens": [3]})"),
              HasSubstr("an entry that is no object"));
}

}  // namespace
}  // namespace mtf
