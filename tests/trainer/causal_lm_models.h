// Small language models of each family, for tests of their conversion.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "trainer/programs/convert/causal_lm_config.h"
#include "trainer/programs/convert/causal_lm_models.h"

namespace mtf::testing {

inline constexpr std::array kFamilies = {
    CausalLmFamily::kGpt2,       CausalLmFamily::kOpt,       CausalLmFamily::kGptNeoX,
    CausalLmFamily::kFalcon,     CausalLmFamily::kBloom,     CausalLmFamily::kPhi,
    CausalLmFamily::kStarcoder2, CausalLmFamily::kStableLm,  CausalLmFamily::kCohere,
    CausalLmFamily::kGranite,    CausalLmFamily::kLlama,     CausalLmFamily::kSmolLm3,
    CausalLmFamily::kMistral,    CausalLmFamily::kMinistral, CausalLmFamily::kQwen2,
    CausalLmFamily::kQwen3,      CausalLmFamily::kOlmo2,     CausalLmFamily::kOlmo3,
    CausalLmFamily::kGemma,      CausalLmFamily::kGemma2,    CausalLmFamily::kGemma3,
    CausalLmFamily::kMixtral,    CausalLmFamily::kOlmoe,     CausalLmFamily::kQwen2Moe,
    CausalLmFamily::kQwen3Moe,   CausalLmFamily::kPhi3,      CausalLmFamily::kNemotron,
    CausalLmFamily::kGptJ,       CausalLmFamily::kMpt,       CausalLmFamily::kGlm,
    CausalLmFamily::kGlm4};

inline bool has_experts(CausalLmFamily family) {
  using enum CausalLmFamily;
  return family == kMixtral || family == kOlmoe || family == kQwen2Moe || family == kQwen3Moe;
}

inline CausalLmConfig small_lm(CausalLmFamily family) {
  CausalLmConfig lm;
  lm.family = family;
  lm.form = model_of(family).form;
  const CausalLmModel& model = model_of(family);
  const bool is_gptj = family == CausalLmFamily::kGptJ, is_mpt = family == CausalLmFamily::kMpt,
             is_glm = family == CausalLmFamily::kGlm || family == CausalLmFamily::kGlm4;
  const bool has_biases = model.has_dropout,
             has_one_size =
                 model.has_layer_norm || family == CausalLmFamily::kOlmoe || family == CausalLmFamily::kPhi3,
             has_groups = (!has_biases && !is_mpt) || family == CausalLmFamily::kStarcoder2;
  lm.vocab_size = 9;
  lm.begin = 4;
  lm.end = 6;
  lm.hidden = 24;
  lm.num_layers = 2;
  lm.num_heads = 4;
  lm.num_memory_heads = has_groups ? 2 : 4;
  lm.head_size = has_one_size ? 6 : 10;
  lm.intermediate = family == CausalLmFamily::kBloom || is_mpt ? 96 : 40;
  lm.max_positions = 30;
  lm.activation = has_biases && !model.has_alibi ? Activation::kRelu : Activation::kGelu;
  if (is_mpt) lm.activation = Activation::kGeluErf;
  if (family == CausalLmFamily::kNemotron) lm.activation = Activation::kSquaredRelu;
  const bool is_qwen2 = family == CausalLmFamily::kQwen2 || family == CausalLmFamily::kQwen2Moe;
  lm.attention_bias = has_biases ? AttentionBias::kAll
                      : is_qwen2 ? AttentionBias::kInputs
                                 : AttentionBias::kNone;
  if (is_gptj) lm.attention_bias = AttentionBias::kNone;
  if (is_glm) lm.attention_bias = AttentionBias::kInputs;
  lm.feed_forward_bias = has_biases;
  lm.logit_bias = family == CausalLmFamily::kPhi || is_gptj;
  if (model.rotary_share > 0) lm.rotary_size = 4;
  lm.epsilon = family == CausalLmFamily::kOpt ? 1e-5 : 1e-4;  // that of an OPT is none of its keys
  lm.is_fused = model.is_fused;
  lm.has_pairs_together = model.has_pairs_together;
  lm.initializer_range = 0.25;
  lm.attention_dropout = is_mpt ? 0 : 0.5;
  if (has_biases) lm.dropout = lm.embedding_dropout = 0.125;
  if (family == CausalLmFamily::kOpt || family == CausalLmFamily::kBloom) lm.embedding_dropout = 0;
  constexpr AttentionKind kFull, kLocal{.is_local = true}, kWithoutRotary{.has_rotary = false};
  if (family == CausalLmFamily::kMistral || family == CausalLmFamily::kStarcoder2) lm.kinds = {kLocal};
  if (family == CausalLmFamily::kSmolLm3) lm.kinds = {kFull, kWithoutRotary};
  if (family == CausalLmFamily::kCohere) lm.scales = {.logit_divisor = 16};
  if (family == CausalLmFamily::kGranite) {
    lm.scales = {.embedding = 12, .residual = 0.22, .logit_divisor = 49};
    lm.scaling_size = 16;
  }
  if (family == CausalLmFamily::kMinistral) lm.kinds = {kFull, kLocal};
  if (lm.is_gemma() && lm.has_outer_norms()) {
    lm.kinds = {kLocal, kFull};
    lm.scaling_size = 7;
    lm.logit_soft_cap = 2.5;
  }
  if (family == CausalLmFamily::kOlmo3) {
    lm.kinds = {kLocal, kFull};
    lm.local_rotary_base = lm.rotary_base;
  }
  if (std::ranges::any_of(lm.kinds, &AttentionKind::is_local)) lm.window = 5;
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

/// Whether the layers of a pattern are local.
inline std::vector<bool> locals_of(const CausalLmConfig& lm) {
  std::vector<bool> locals;
  for (const AttentionKind& kind : lm.kinds) locals.push_back(kind.is_local);
  return locals;
}

/// What config.json with these entries says, beside some sizes.
inline CausalLmConfig parsed_lm(const std::string& entries) {
  return parse_causal_lm_config(R"({"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
      "num_key_value_heads": 1, "intermediate_size": 8, "vocab_size": 9, )" +
                                    entries + "}",
                                "config.json");
}

inline std::string yaml(const CausalLmConfig& lm) {
  return causal_lm_yaml(
      lm, {.vocabulary = "{type: hugging_face, path: tokenizer.json, begin: <s>, end: </s>, size: 9}",
           .target = {"/models/a b"},
           .source = "lm"});
}

}  // namespace mtf::testing
