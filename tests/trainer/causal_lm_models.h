// Small language models of each family, for tests of their conversion.
#pragma once

#include <array>
#include <string>

#include "trainer/programs/convert/causal_lm_config.h"
#include "trainer/programs/convert/causal_lm_models.h"

namespace mtf::testing {

inline constexpr std::array kFamilies = {
    CausalLmFamily::kGpt2,     CausalLmFamily::kGptNeoX, CausalLmFamily::kPhi,     CausalLmFamily::kStableLm,
    CausalLmFamily::kGranite,  CausalLmFamily::kLlama,   CausalLmFamily::kMistral, CausalLmFamily::kMinistral,
    CausalLmFamily::kQwen2,    CausalLmFamily::kQwen3,   CausalLmFamily::kOlmo2,   CausalLmFamily::kGemma,
    CausalLmFamily::kGemma2,   CausalLmFamily::kGemma3,  CausalLmFamily::kMixtral, CausalLmFamily::kOlmoe,
    CausalLmFamily::kQwen2Moe, CausalLmFamily::kQwen3Moe};

inline bool has_experts(CausalLmFamily family) {
  using enum CausalLmFamily;
  return family == kMixtral || family == kOlmoe || family == kQwen2Moe || family == kQwen3Moe;
}

inline CausalLmConfig small_lm(CausalLmFamily family) {
  CausalLmConfig lm;
  lm.family = family;
  lm.form = model_of(family).form;
  const bool has_biases = lm.has_dropout(),
             has_one_size = lm.has_layer_norm() || family == CausalLmFamily::kOlmoe;
  lm.vocab_size = 9;
  lm.begin = 4;
  lm.end = 6;
  lm.hidden = 24;
  lm.num_layers = 2;
  lm.num_heads = 4;
  lm.num_memory_heads = has_biases ? 4 : 2;
  lm.head_size = has_one_size ? 6 : 10;
  lm.intermediate = 40;
  lm.max_positions = 30;
  lm.activation = has_biases ? Activation::kRelu : Activation::kGelu;
  const bool is_qwen2 = family == CausalLmFamily::kQwen2 || family == CausalLmFamily::kQwen2Moe;
  lm.attention_bias = has_biases ? AttentionBias::kAll
                      : is_qwen2 ? AttentionBias::kInputs
                                 : AttentionBias::kNone;
  lm.feed_forward_bias = has_biases;
  lm.logit_bias = family == CausalLmFamily::kPhi;
  if (model_of(family).rotary_share > 0) lm.rotary_size = 4;
  lm.epsilon = 1e-4;
  lm.initializer_range = 0.25;
  lm.attention_dropout = 0.5;
  if (has_biases) lm.dropout = lm.embedding_dropout = 0.125;
  if (family == CausalLmFamily::kMistral) lm.local = {true};
  if (family == CausalLmFamily::kGranite) {
    lm.scales = {.embedding = 12, .residual = 0.22, .logit_divisor = 49};
    lm.scaling_size = 16;
  }
  if (family == CausalLmFamily::kMinistral) lm.local = {false, true};
  if (lm.has_outer_norms()) {
    lm.local = {true, false};
    lm.scaling_size = 7;
    lm.logit_soft_cap = 2.5;
  }
  if (lm.local[0] || lm.pattern() > 1) lm.window = 5;
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

inline std::string yaml(const CausalLmConfig& lm) {
  return causal_lm_yaml(
      lm, {.vocabulary = "{type: hugging_face, path: tokenizer.json, begin: <s>, end: </s>, size: 9}",
           .target = {"/models/a b"},
           .source = "lm"});
}

}  // namespace mtf::testing
