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
  of_experts.kinds = {{.is_local = true}, {}};
  of_experts.window = 7;
  models.push_back(of_experts);
  for (const CausalLmFamily family : {CausalLmFamily::kMixtral, CausalLmFamily::kQwen3Moe}) {
    CausalLmConfig local = small_lm(family);
    local.kinds = {{.is_local = true}};
    local.window = 7;
    models.push_back(local);
  }
  CausalLmConfig different = small_lm(CausalLmFamily::kGpt2);
  different.embedding_dropout = 0.25;
  different.attention_dropout = 0.125;
  models.push_back(different);
  CausalLmConfig alternating = small_lm(CausalLmFamily::kQwen2);
  alternating.num_layers = 6;
  alternating.kinds = {{.is_local = true}, {}, {}};
  alternating.window = 7;
  models.push_back(alternating);
  CausalLmConfig odd = small_lm(CausalLmFamily::kMistral);
  odd.hidden = 26;
  odd.kinds = {{}};
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
  for (const auto& [form, heads] : {std::pair(BlockForm::kParallelNorms, 2),
                                    {BlockForm::kParallel, 4},
                                    {BlockForm::kParallel, 1},
                                    {BlockForm::kParallel, 2}}) {
    CausalLmConfig falcon = small_lm(CausalLmFamily::kFalcon);
    falcon.form = form;
    falcon.num_memory_heads = heads;
    models.push_back(falcon);
    falcon.attention_bias = AttentionBias::kAll;
    falcon.feed_forward_bias = true;
    models.push_back(falcon);
  }
  CausalLmConfig without_biases = small_lm(CausalLmFamily::kOpt);
  without_biases.attention_bias = AttentionBias::kNone;
  without_biases.feed_forward_bias = false;
  without_biases.activation = Activation::kGelu;
  models.push_back(without_biases);
  CausalLmConfig unscaled = small_lm(CausalLmFamily::kCohere);
  unscaled.scales.reset();
  unscaled.attention_bias = AttentionBias::kAll;
  models.push_back(unscaled);
  CausalLmConfig code = small_lm(CausalLmFamily::kStarcoder2);
  code.kinds = {{}};
  code.window.reset();
  models.push_back(code);
  for (const CausalLmFamily family : {CausalLmFamily::kSmolLm3, CausalLmFamily::kOlmo3}) {
    CausalLmConfig scaled = small_lm(family);
    YarnRotaryScaling yarn;
    yarn.factor = 2.5;
    yarn.original_length = 12;
    scaled.rotary_scaling = yarn;
    scaled.kinds = {
        {.is_local = true}, {.is_local = true, .has_rotary = family == CausalLmFamily::kOlmo3}, {}, {}};
    scaled.num_layers = 8;
    scaled.window = 7;
    models.push_back(scaled);
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
  EXPECT_EQ(locals_of(second), (std::vector<bool>{true, false}));
  EXPECT_EQ(locals_of(third), (std::vector<bool>{true, true, true, true, true, false}));
  EXPECT_EQ(std::tie(second.window, third.window), std::make_tuple(4096, 4096));
  EXPECT_EQ(std::tie(second.attention_soft_cap, second.logit_soft_cap), std::make_tuple(50, 30));
  EXPECT_EQ(std::tie(third.attention_soft_cap, third.logit_soft_cap),
            std::make_tuple(std::nullopt, std::nullopt));
  EXPECT_EQ(std::tie(third.rotary_base, third.local_rotary_base), std::make_tuple(1e6, 1e4));
  EXPECT_EQ(gemma("gemma2", R"("final_logit_softcapping": null)").logit_soft_cap, std::nullopt);
  EXPECT_EQ(gemma("gemma2", R"("query_pre_attn_scalar": 144)").scaling_size, 144);
  EXPECT_EQ(locals_of(gemma("gemma3_text", R"("sliding_window_pattern": 3)")),
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

CausalLmConfig parsed_text(const std::string& text) { return parse_causal_lm_config(text, "config.json"); }

/// Published files, with smaller sizes.
TEST(CausalLmConfig, OptsHaveTheValuesOfTheirFiles) {
  const std::string opt =
      R"({"_remove_final_layer_norm": false, "activation_dropout": 0.0, "activation_function": "relu",
      "attention_dropout": 0.0, "bos_token_id": 2, "do_layer_norm_before": true, "dropout": 0.1, "eos_token_id": 2,
      "ffn_dim": 48, "hidden_size": 12, "init_std": 0.03, "layerdrop": 0.0, "max_position_embeddings": 64,
      "model_type": "opt", "num_attention_heads": 3, "num_hidden_layers": 2, "pad_token_id": 1, "vocab_size": 9,)";
  const CausalLmConfig lm = parsed_text(opt + R"("word_embed_proj_dim": 12})");
  EXPECT_EQ(std::tie(lm.hidden, lm.intermediate, lm.num_heads, lm.head_size, lm.max_positions),
            std::make_tuple(12, 48, 3, 4, 64));
  EXPECT_EQ(std::tie(lm.activation, lm.attention_bias, lm.feed_forward_bias, lm.tied),
            std::make_tuple(Activation::kRelu, AttentionBias::kAll, true, true));
  EXPECT_EQ(std::tie(lm.dropout, lm.embedding_dropout, lm.epsilon, lm.initializer_range),
            std::make_tuple(0.1, 0, 1e-5, 0.03));
  EXPECT_EQ(parsed_text(opt + R"("enable_bias": false})").attention_bias, AttentionBias::kNone);
  EXPECT_THAT(message([&] { parsed_text(opt + R"("word_embed_proj_dim": 6})"); }),
              HasSubstr("`word_embed_proj_dim` is 6, and only 12 can be converted"));
  std::string post_norm = opt + R"("use_cache": true})";
  post_norm.replace(post_norm.find("before\": true"), 13, "before\": false");
  EXPECT_THAT(message([&] { parsed_text(post_norm); }),
              HasSubstr("`do_layer_norm_before` is false, and only true can be converted"));
}

TEST(CausalLmConfig, FalconsHaveTheArchitectureOfTheirFiles) {
  const auto falcon = [](const std::string& entries) {
    return parsed_text(R"({"attention_dropout": 0.0, "bias": false, "bos_token_id": 1, "eos_token_id": 1,
        "hidden_dropout": 0.0, "hidden_size": 32, "layer_norm_epsilon": 1e-05, "model_type": "falcon",
        "num_attention_heads": 8, "num_hidden_layers": 2, "vocab_size": 9, )" +
                       entries + "}");
  };
  const auto shape = [&](const std::string& entries) {
    const CausalLmConfig lm = falcon(entries);
    return std::tuple(lm.num_memory_heads, lm.form);
  };
  const CausalLmConfig of_7b = falcon(R"("alibi": false, "apply_residual_connection_post_layernorm": false,
      "multi_query": true, "new_decoder_architecture": false, "parallel_attn": true)");
  EXPECT_EQ(std::tie(of_7b.num_memory_heads, of_7b.form, of_7b.intermediate, of_7b.head_size),
            std::make_tuple(1, BlockForm::kParallel, 128, 4));
  EXPECT_EQ(std::tie(of_7b.activation, of_7b.attention_bias, of_7b.feed_forward_bias, of_7b.tied),
            std::make_tuple(Activation::kGeluErf, AttentionBias::kNone, false, true));
  const std::string is_new = R"("new_decoder_architecture": true, )";
  EXPECT_EQ(shape(is_new + R"("num_kv_heads": 2)"), std::tuple(2, BlockForm::kParallelNorms));
  EXPECT_EQ(shape(is_new + R"("num_kv_heads": 2, "num_ln_in_parallel_attn": 1, "multi_query": true)"),
            std::tuple(2, BlockForm::kParallel));
  EXPECT_EQ(shape(R"("multi_query": false)"), std::tuple(8, BlockForm::kParallel));
  EXPECT_EQ(shape(R"("parallel_attn": false)"), std::tuple(1, BlockForm::kNormsBefore));
  const auto refused = [&](const std::string& entries) { return message([&] { falcon(entries); }); };
  EXPECT_THAT(refused(R"("alibi": true)"), HasSubstr("`alibi` is true, and only false can be"));
  EXPECT_THAT(refused(is_new + R"("parallel_attn": false)"), HasSubstr("only true can be"));
  EXPECT_THAT(refused(is_new + R"("num_kv_heads": 3)"), HasSubstr("8 heads cannot share 3 `num_kv_heads`"));
  EXPECT_THAT(refused(is_new + R"("num_ln_in_parallel_attn": 3)"),
              HasSubstr("`num_ln_in_parallel_attn` is 3"));
  EXPECT_THAT(refused(R"("num_ln_in_parallel_attn": 2)"), HasSubstr("only 1 can be"));
}

TEST(CausalLmConfig, BloomsHaveTheKeysOfAnyVersion) {
  const CausalLmConfig old =
      parsed_text(R"({"n_embed": 24, "n_layer": 3, "num_attention_heads": 3, "n_inner": null,
      "offset_alibi": 100, "model_type": "bloom", "hidden_dropout": 0.125, "vocab_size": 9, "seq_length": 40})");
  EXPECT_EQ(std::tie(old.hidden, old.num_layers, old.num_heads, old.intermediate, old.max_positions),
            std::make_tuple(24, 3, 3, 96, 40));
  EXPECT_EQ(std::tie(old.dropout, old.embedding_dropout, old.activation),
            std::make_tuple(0.125, 0, Activation::kGelu));
  EXPECT_EQ(
      parsed_text(R"({"hidden_size": 24, "n_layer": 3, "n_head": 3, "model_type": "bloom", "vocab_size": 9})")
          .max_positions,
      2048);
  EXPECT_THAT(message([&] {
                parsed_text(R"({"model_type": "bloom", "vocab_size": 9, "hidden_size": 24, "n_layer": 1,
      "n_head": 3, "apply_residual_connection_post_layernorm": true})");
              }),
              HasSubstr("only false can be converted"));
}

TEST(CausalLmConfig, ACohereMultipliesLogits) {
  const auto cohere = [](const std::string& entries) {
    return parsed_lm(R"("model_type": "cohere", )" + entries);
  };
  const CausalLmConfig lm = cohere(R"("attention_bias": false, "layer_norm_eps": 1e-05, "logit_scale": 0.0625,
      "rope_theta": 8000000.0, "use_qk_norm": false)");
  EXPECT_EQ(std::tie(lm.scales->logit_divisor, lm.rotary_base, lm.form, lm.tied),
            std::make_tuple(16, 8e6, BlockForm::kParallel, true));
  EXPECT_EQ(cohere(R"("bos_token_id": 5)").scales->logit_divisor, 16);
  EXPECT_FALSE(cohere(R"("logit_scale": 1.0)").scales);
  EXPECT_THAT(message([&] { cohere(R"("use_qk_norm": true)"); }), HasSubstr("only false can be converted"));
}

TEST(CausalLmConfig, AStarcoder2HasGroupedHeadsAndAWindow) {
  const CausalLmConfig lm = parsed_lm(R"("model_type": "starcoder2", "attention_dropout": 0.1,
      "embedding_dropout": 0.1, "residual_dropout": 0.125, "hidden_act": "gelu_pytorch_tanh", "norm_epsilon": 1e-05,
      "norm_type": "layer_norm", "mlp_type": "default", "rope_theta": 999999.4420358813, "sliding_window": 16,
      "max_position_embeddings": 64, "use_bias": true)");
  EXPECT_EQ(std::tie(lm.window, lm.dropout, lm.embedding_dropout, lm.feed_forward_bias, lm.attention_bias),
            std::make_tuple(16, 0.125, 0.1, true, AttentionBias::kAll));
  EXPECT_EQ(std::tie(lm.activation, lm.rotary_base, lm.tied),
            std::make_tuple(Activation::kGelu, 999999.4420358813, true));
  EXPECT_FALSE(parsed_lm(R"("model_type": "starcoder2", "use_bias": false)").feed_forward_bias);
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

TEST(CausalLmConfig, AllStepsOfAdamHaveOneLength) {
  for (const CausalLmFamily family : kFamilies)
    EXPECT_THAT(yaml(small_lm(family)), HasSubstr("scaled_steps: false"));
}

}  // namespace
}  // namespace mtf::testing
