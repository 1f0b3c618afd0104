#include "trainer/programs/convert/causal_lm_config.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "tests/trainer/causal_lm_models.h"
#include "tests/trainer/hugging_face_directory.h"
#include "trainer/programs/convert/config_text.h"

namespace mtf::testing {
namespace {

using ::testing::HasSubstr;

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
  for (const CausalLmFamily family : {CausalLmFamily::kGptNeoX, CausalLmFamily::kStableLm}) {
    CausalLmConfig other = small_lm(family);
    const bool is_neox = family == CausalLmFamily::kGptNeoX;
    other.form = is_neox ? BlockForm::kNormsBefore : BlockForm::kParallel;
    other.attention_bias = is_neox ? AttentionBias::kNone : AttentionBias::kInputs;
    other.rotary_size.reset();
    YarnRotaryScaling yarn;
    yarn.factor = 2.5;
    yarn.original_length = 12;
    if (is_neox) yarn.attention_factor = 1.25;
    yarn.truncate = is_neox;
    other.rotary_scaling = yarn;
    models.push_back(other);
  }
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
  EXPECT_THAT(message([&] { scaling(R"("rope_scaling": {"rope_type": "longrope", "factor": 4})"); }),
              HasSubstr("config.json: rope_scaling: `rope_type` is longrope, which cannot be converted"));
  EXPECT_THAT(message([&] { scaling(R"("rope_scaling": {"rope_type": "linear"})"); }),
              HasSubstr("rope_scaling: there is no `factor`"));
  EXPECT_THAT(message([&] { scaling(R"("rope_theta": -1)"); }), HasSubstr("`rope_theta` is -1, no number"));
  EXPECT_THAT(message([&] { scaling(R"("partial_rotary_factor": 0.5)"); }), HasSubstr("only 1.0 can be"));
}

TEST(CausalLmConfig, RopeScalingStandsInThePlaceOfRopeParameters) {
  const auto base = [](const std::string& entries) {
    return parsed_lm(R"("model_type": "llama", "rope_parameters": {"rope_type": "linear", "factor": 3.0,
        "rope_theta": 700.0}, )" +
                     entries);
  };
  EXPECT_EQ(base(R"("rope_scaling": null)").rotary_base, 700);
  EXPECT_EQ(base(R"("rope_scaling": {})").rotary_base, 700);
  const CausalLmConfig both = base(R"("rope_scaling": {"rope_type": "linear", "factor": 2.0})");
  EXPECT_EQ(both.rotary_scaling->get_if<LinearRotaryScaling>()->factor, 2);
  EXPECT_EQ(both.rotary_base, 10000);
}

TEST(CausalLmConfig, YarnHasTheDefaultsOfTransformers) {
  const auto yarn = [](const std::string& entries, const std::string& beside = "") {
    const CausalLmConfig lm = parsed_lm(fmt::format(
        R"("model_type": "llama", "max_position_embeddings": 64, "rope_scaling": {{"rope_type": "yarn", {}}}{})",
        entries, beside));
    return *lm.rotary_scaling->get_if<YarnRotaryScaling>();
  };
  const YarnRotaryScaling plain = yarn(R"("factor": 4.0)");
  EXPECT_EQ(std::tie(plain.factor, plain.original_length, plain.beta_fast, plain.beta_slow, plain.truncate),
            std::make_tuple(4, 64, 32, 1, true));
  EXPECT_FALSE(plain.attention_factor);
  const std::string length = R"("original_max_position_embeddings": 16)";
  EXPECT_EQ(yarn(R"("factor": null, )" + length).factor, 4);
  EXPECT_EQ(yarn(R"("factor": 4.0, )" + length, R"(, "original_max_position_embeddings": 8)").original_length,
            8);
  EXPECT_EQ(
      yarn(R"("factor": 4.0, "attention_factor": 1.5, "mscale": 2, "mscale_all_dim": 2)").attention_factor,
      1.5);
  EXPECT_EQ(yarn(R"("factor": 4.0, "mscale": 2, "mscale_all_dim": 2)").attention_factor, 1);
  EXPECT_FALSE(yarn(R"("factor": 4.0, "mscale": 2)").attention_factor);
  EXPECT_THAT(message([&] { yarn(length); }), HasSubstr("there is no `factor`"));
  EXPECT_THAT(message([&] { yarn(R"("factor": 4.0, "beta_fast": 0.5)"); }),
              HasSubstr("`beta_fast` must be `beta_slow` at least"));
}

TEST(CausalLmConfig, APartOfAHeadIsTurned) {
  const auto size = [](const std::string& type, const std::string& entries) {
    return parse_causal_lm_config(
               fmt::format(R"({{"hidden_size": 40, "num_hidden_layers": 1, "num_attention_heads": 4,
                   "num_key_value_heads": 4, "intermediate_size": 8, "vocab_size": 9, "model_type": "{}", {}}})",
                           type, entries),
               "config.json")
        .rotary_size;
  };
  EXPECT_EQ(size("gpt_neox", R"("rotary_pct": 0.6)"), 6);
  EXPECT_EQ(size("gpt_neox", R"("rotary_pct": 1.0)"), std::nullopt);
  EXPECT_EQ(size("gpt_neox", R"("rotary_pct": 0.6, "rope_parameters": {"partial_rotary_factor": 0.4})"), 4);
  EXPECT_EQ(size("phi", R"("partial_rotary_factor": 0.4)"), 4);
  EXPECT_EQ(size("phi", R"("partial_rotary_factor": 0.45)"), 4);
  EXPECT_EQ(size("stablelm", R"("rope_scaling": null)"), 2);
  EXPECT_THAT(message([&] { size("phi", R"("bos_token_id": 1)"); }),
              HasSubstr("5 of the 10 entries of a head have rotary positions"));
  EXPECT_THAT(message([&] { size("phi", R"("partial_rotary_factor": 0.1)"); }), HasSubstr("1 of the 10"));
  EXPECT_THAT(message([&] { size("phi", R"("partial_rotary_factor": 1.2)"); }), HasSubstr("12 of the 10"));
  EXPECT_THAT(message([&] { size("phi", R"("qk_layernorm": true)"); }), HasSubstr("only false can be"));
  EXPECT_THAT(message([&] { size("stablelm", R"("hidden_dropout": 0.1)"); }), HasSubstr("only 0.0 can be"));
  EXPECT_THAT(message([&] { size("stablelm", R"("head_dim": 12)"); }), HasSubstr("only 10 can be"));
}

TEST(CausalLmConfig, AGraniteDividesLogitsOfAttentionByARoot) {
  const auto size = [](const std::string& multiplier) {
    return parsed_lm(R"("model_type": "granite", "attention_multiplier": )" + multiplier).scaling_size;
  };
  EXPECT_EQ(size("0.015625"), 4096);
  EXPECT_EQ(size("0.35355339059327379"), std::nullopt);  // 8 entries of a head
  EXPECT_EQ(size("null"), 1);
  for (const char* wrong : {"0.3", "2.0", "1e-9"})
    EXPECT_THAT(message([&] { size(wrong); }), HasSubstr("which is no root of 1 / n"));
}

TEST(CausalLmConfig, EachShareOfAHeadComesBack) {
  for (int64_t size = 2; size <= 98; size += 2) {
    CausalLmConfig lm = small_lm(CausalLmFamily::kStableLm);
    lm.head_size = 98;
    lm.hidden = 4 * 98;
    lm.rotary_size = size < 98 ? std::optional(size) : std::nullopt;
    EXPECT_EQ(parse_causal_lm_config(causal_lm_json(lm), "config.json").rotary_size, lm.rotary_size);
  }
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
  EXPECT_EQ(json("falcon_h1", R"("eos_token_id": 1)"),
            "config.json: `model_type` is falcon_h1, which cannot be converted");
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
  EXPECT_THAT(refused(kLlama, "per_layer: [rms_norm, call_layer, residual], final: [rms_norm]",
                      "per_layer: [call_layer, residual], final: []"),
              HasSubstr("`sublayers.final` is []"));
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

TEST(CausalLmConfig, OtherModelsWithLayerNormAndRotaryPositionsAreRefused) {
  using enum CausalLmFamily;
  EXPECT_THAT(refused(kGptNeoX, "scale: none", "scale: sqrt"),
              HasSubstr("the sum of its parallel layers is"));
  EXPECT_THAT(refused(kGptNeoX, "use: feed_forward, name: feed_forward", "use: feed_forward"),
              HasSubstr("has the name ``"));
  EXPECT_THAT(refused(kGptNeoX, "use: feed_forward", "use: mlp"), HasSubstr("there is no block `mlp`"));
  EXPECT_THAT(refused(kGptNeoX, "[layer_norm, DenseReluDense", "[DenseReluDense"),
              HasSubstr("the block `feed_forward` is [DenseReluDense]"));
  EXPECT_THAT(refused(kGptNeoX, "DenseReluDense, dropout: $dropout", "DenseReluDense"),
              HasSubstr("several rates of dropout"));
  EXPECT_THAT(refused(kGptNeoX, "initial: [dropout: $dropout]", "initial: []"),
              HasSubstr("a dropout of 0 before its layers and of 0.125 behind them"));
  EXPECT_THAT(refused(kGptNeoX, "per_layer: [call_layer", "per_layer: [call_layer, dropout: 0.1"),
              HasSubstr("the sum of its parallel layers has dropout"));
  EXPECT_THAT(refused(kGptNeoX, "num_heads: 4", "num_heads: 4, num_memory_heads: 2"),
              HasSubstr("grouped heads"));
  EXPECT_THAT(refused(kPhi, "logit_bias: true", "logit_bias: false"), HasSubstr("logits without a bias"));
  EXPECT_THAT(refused(kPhi, "bias: true, dropout", "bias: qkv, dropout"), HasSubstr("no biases of all"));
  EXPECT_THAT(refused(kStableLm, "z_loss: 0", "z_loss: 0\n  logit_bias: true"),
              HasSubstr("the other layers of a StableLmForCausalLM, and logits with a bias"));
  EXPECT_THAT(refused(kStableLm, "bias: false, dropout", "bias: true, dropout"),
              HasSubstr("a bias of the output"));
  EXPECT_THAT(refused(kLlama, "rotary_base: 10000", "rotary_base: 10000, rotary_size: 4"),
              HasSubstr("rotary positions of a part of a head"));
  EXPECT_THAT(refused(kLlama, "[rms_norm, call_layer", "[call_layer"), HasSubstr("no norms stand around"));
  EXPECT_THAT(refused(kGranite, "bias: false, dropout", "bias: qkv, dropout"),
              HasSubstr("a Qwen2ForCausalLM, and layers that multiply"));
  EXPECT_THAT(refused(kGranite, "call_layer, scale: 0.22", "scale: 0.22, call_layer"),
              HasSubstr("`sublayers.per_layer` is [rms_norm, scale, call_layer, residual]"));
  EXPECT_THAT(refused(kGranite, "scale: 0.22", "scale: -1"), HasSubstr("it multiplies by -1"));
  EXPECT_THAT(refused(kOlmo2, "qk_norm: all_heads", "qk_norm: true"), HasSubstr("no qk_norm of all heads"));
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

}  // namespace
}  // namespace mtf::testing
