// Writes config.json of a language model, for all versions of transformers.
#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/check.h"
#include "trainer/programs/convert/causal_lm_config.h"
#include "trainer/programs/convert/causal_lm_models.h"
#include "trainer/programs/convert/causal_lm_own_keys.h"

namespace mtf {
namespace {

nlohmann::ordered_json scaling_json(const RotaryScalingChoice& scaling) {
  if (const auto* linear = scaling.get_if<LinearRotaryScaling>())
    return {{"rope_type", "linear"}, {"factor", linear->factor}};
  if (const auto* llama3 = scaling.get_if<Llama3RotaryScaling>())
    return {{"rope_type", "llama3"},
            {"factor", llama3->factor},
            {"low_freq_factor", llama3->low_frequency},
            {"high_freq_factor", llama3->high_frequency},
            {"original_max_position_embeddings", llama3->original_length}};
  if (const auto* longrope = scaling.get_if<LongRotaryScaling>()) {
    nlohmann::ordered_json json = {{"rope_type", "longrope"},
                                   {"short_factor", longrope->short_factor},
                                   {"long_factor", longrope->long_factor},
                                   {"factor", longrope->factor},
                                   {"original_max_position_embeddings", longrope->original_length}};
    if (longrope->attention_factor) json["attention_factor"] = *longrope->attention_factor;
    return json;
  }
  const auto* yarn = scaling.get_if<YarnRotaryScaling>();
  MTF_CHECK(yarn, "a scaling of rotary positions");
  nlohmann::ordered_json json = {{"rope_type", "yarn"},
                                 {"factor", yarn->factor},
                                 {"original_max_position_embeddings", yarn->original_length},
                                 {"beta_fast", yarn->beta_fast},
                                 {"beta_slow", yarn->beta_slow}};
  if (yarn->attention_factor) json["attention_factor"] = *yarn->attention_factor;
  if (!yarn->truncate) json["truncate"] = false;
  return json;
}

/// Returns the least share of the entries of a head that makes `turned` of them where it is multiplied and rounded down.
double rotary_share(int64_t turned, int64_t head_size) {
  const auto entries = static_cast<double>(head_size);
  double share = static_cast<double>(turned) / entries;
  while (static_cast<int64_t>(entries * share) < turned) share = std::nextafter(share, 1);
  return share;
}

/// Versions before 5 of a Phi-3 refuse other keys of `rope_scaling` than these, and compute the factor of the lengths.
void write_longrope(const CausalLmConfig& lm, nlohmann::ordered_json& json) {
  const auto& longrope = *lm.rotary_scaling->get_if<LongRotaryScaling>();
  json["original_max_position_embeddings"] = longrope.original_length;
  nlohmann::ordered_json& scaling = json["rope_scaling"];
  if (lm.family != CausalLmFamily::kPhi3) return;
  scaling = {
      {"type", "longrope"}, {"short_factor", longrope.short_factor}, {"long_factor", longrope.long_factor}};
  const double factor = static_cast<double>(lm.max_positions) / static_cast<double>(longrope.original_length);
  if (longrope.attention_factor || factor != longrope.factor)
    scaling["attention_factor"] = longrope.magnitude();
}

/// Writes rotary positions for all versions of transformers.
void write_rotary(const CausalLmConfig& lm, nlohmann::ordered_json& json) {
  nlohmann::ordered_json parameters = {{"rope_type", "default"}};
  json["rope_theta"] = lm.rotary_base;
  json["rope_scaling"] = nullptr;
  if (lm.rotary_scaling) json["rope_scaling"] = parameters = scaling_json(*lm.rotary_scaling);
  parameters["rope_theta"] = lm.rotary_base;
  if (lm.has_longrope()) write_longrope(lm, json);
  if (lm.model().rotary_share > 0) {
    const double share = rotary_share(lm.rotary_size.value_or(lm.head_size), lm.head_size);
    parameters["partial_rotary_factor"] = json["partial_rotary_factor"] = share;
    if (lm.family == CausalLmFamily::kGptNeoX) {
      json["rotary_pct"] = share;
      json["rotary_emb_base"] = lm.rotary_base;
    }
  }
  json["rope_parameters"] = parameters;
  if (!lm.local_rotary_base) return;
  if (lm.family == CausalLmFamily::kGemma3) json["rope_local_base_freq"] = *lm.local_rotary_base;
  json["rope_parameters"] = {
      {"full_attention", parameters},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", *lm.local_rotary_base}}}};
}

/// `layer_types` is for newer versions of transformers, `max_window_layers` for older ones.
void write_windows(const CausalLmConfig& lm, nlohmann::ordered_json& json) {
  const Windows windows = lm.model().windows;
  if (has_switch(windows)) {
    json["use_sliding_window"] = lm.window.has_value();
  } else if (are_alike(windows)) {
    json["sliding_window"] = nullptr;  // 4096 where it is absent, in some versions
  }
  if (lm.window) json["sliding_window"] = *lm.window;
  if (lm.window && windows == Windows::kAllIfUsed) json["max_window_layers"] = 0;
  const bool has_types = (lm.is_gemma() && lm.has_outer_norms()) || (lm.window && !are_alike(windows));
  if (!has_types) return;
  std::vector<std::string_view> types;
  for (int64_t layer = 0; layer < lm.num_layers; ++layer)
    types.push_back(lm.kind_of(layer).is_local ? "sliding_attention" : "full_attention");
  json["layer_types"] = types;
  if (windows == Windows::kUpper)
    json["max_window_layers"] = std::ranges::find(types, "sliding_attention") - types.begin();
}

void write_gemma(const CausalLmConfig& lm, nlohmann::ordered_json& json) {
  // The name that its files have for what others call gelu_new.
  if (lm.activation == Activation::kGelu) json["hidden_act"] = "gelu_pytorch_tanh";
  if (!lm.has_outer_norms()) return;
  json["hidden_activation"] = json["hidden_act"];
  json["query_pre_attn_scalar"] = lm.scaling_size.value_or(lm.head_size);
  const auto cap = [](std::optional<double> value) {
    return value ? nlohmann::ordered_json(*value) : nullptr;
  };
  json["final_logit_softcapping"] = cap(lm.logit_soft_cap);
  json["attn_logit_softcapping"] = cap(lm.attention_soft_cap);
}

void write_smollm3(const CausalLmConfig& lm, nlohmann::ordered_json& json) {
  std::vector<int> has_rotary;
  for (int64_t layer = 0; layer < lm.num_layers; ++layer)
    has_rotary.push_back(lm.kind_of(layer).has_rotary ? 1 : 0);
  json["no_rope_layers"] = has_rotary;
  json["pad_token_id"] = nullptr;  // 128004 where it is absent, which smaller vocabularies lack
}

/// Each key stands where any version of transformers reads it.
void write_experts(const CausalLmConfig& lm, nlohmann::ordered_json& json) {
  const CausalLmExperts& experts = *lm.experts;
  json["num_experts_per_tok"] = experts.per_token;
  json["router_aux_loss_coef"] = experts.balance_coef;
  json["num_local_experts"] = experts.count;
  if (lm.family == CausalLmFamily::kMixtral) return;
  json["num_experts"] = experts.count;
  json["norm_topk_prob"] = experts.normalized;
  if (lm.family == CausalLmFamily::kOlmoe) return;
  json["moe_intermediate_size"] = lm.intermediate;
  json["intermediate_size"] = lm.intermediate * experts.per_token;  // no block has such a layer
  json["decoder_sparse_step"] = 1;
  json["mlp_only_layers"] = nlohmann::json::array();
  if (experts.shared_hidden) json["shared_expert_intermediate_size"] = *experts.shared_hidden;
}

/// What stands in config.json of a GPT-NeoX, a Phi, a StarCoder2, a StableLM, a Nemotron or a Cohere alone.
void write_model_with_layer_norm(const CausalLmConfig& lm, nlohmann::ordered_json& json) {
  if (lm.family == CausalLmFamily::kStarcoder2) {
    json.update({{"norm_epsilon", lm.epsilon},
                 {"use_bias", lm.feed_forward_bias},
                 {"residual_dropout", lm.dropout},
                 {"embedding_dropout", lm.embedding_dropout}});
    return;
  }
  if (lm.family == CausalLmFamily::kCohere) {
    json["logit_scale"] = lm.scales ? rounded_coefficient(1 / lm.scales->logit_divisor) : 1;
    json["use_qk_norm"] = false;
    return;
  }
  if (lm.family == CausalLmFamily::kNemotron) {
    json.update({{"norm_eps", lm.epsilon}, {"mlp_bias", lm.feed_forward_bias}, {"head_dim", lm.head_size}});
    return;
  }
  if (lm.family == CausalLmFamily::kPhi) {
    json.update({{"resid_pdrop", lm.dropout}, {"embd_pdrop", lm.embedding_dropout}, {"qk_layernorm", false}});
    return;
  }
  json["use_parallel_residual"] = lm.is_parallel();
  json["hidden_dropout"] = lm.dropout;
  if (lm.family == CausalLmFamily::kGptNeoX) return;
  json["use_qkv_bias"] = lm.attention_bias == AttentionBias::kInputs;
  json["qk_layernorm"] = false;
}

void write_rotary_model(const CausalLmConfig& lm, nlohmann::ordered_json& json) {
  json.update({{"hidden_size", lm.hidden},
               {"num_hidden_layers", lm.num_layers},
               {"num_attention_heads", lm.num_heads},
               {"num_key_value_heads", lm.num_memory_heads},
               {"intermediate_size", lm.intermediate},
               {"hidden_act", activation_name(lm.activation)},
               {"max_position_embeddings", lm.max_positions},
               {lm.model().has_layer_norm ? "layer_norm_eps" : "rms_norm_eps", lm.epsilon},
               {"attention_dropout", lm.attention_dropout}});
  if (lm.model().has_layer_norm) {
    write_model_with_layer_norm(lm, json);
  } else {
    json["head_dim"] = lm.head_size;
  }
  if (may_have_unit_biases(lm.family)) json["mlp_bias"] = lm.feed_forward_bias;
  if (may_have_all_biases(lm.family)) json["attention_bias"] = lm.attention_bias == AttentionBias::kAll;
  if (lm.family == CausalLmFamily::kQwen2Moe) json["qkv_bias"] = lm.attention_bias == AttentionBias::kInputs;
  write_windows(lm, json);
  if (lm.family == CausalLmFamily::kSmolLm3) write_smollm3(lm, json);
  if (lm.family == CausalLmFamily::kGranite)
    json.update({{"embedding_multiplier", lm.scales->embedding},
                 {"residual_multiplier", lm.scales->residual},
                 {"logits_scaling", lm.scales->logit_divisor},
                 {"attention_multiplier",
                  1 / std::sqrt(static_cast<double>(lm.scaling_size.value_or(lm.head_size)))}});
  if (lm.is_gemma()) write_gemma(lm, json);
  const bool is_glm = lm.family == CausalLmFamily::kGlm || lm.family == CausalLmFamily::kGlm4;
  if (is_glm) json["attention_bias"] = lm.attention_bias == AttentionBias::kInputs;
  if (lm.family == CausalLmFamily::kPhi3) json.update({{"resid_pdrop", 0.0}, {"embd_pdrop", 0.0}});
  // Where it is absent it is an id that smaller vocabularies lack.
  if (is_glm || lm.family == CausalLmFamily::kPhi3) json["pad_token_id"] = nullptr;
  if (lm.experts) write_experts(lm, json);
}

}  // namespace

std::string causal_lm_json(const CausalLmConfig& lm) {
  const CausalLmModel& model = lm.model();
  nlohmann::ordered_json json = {
      {"architectures", {model.architecture}}, {"model_type", model.type}, {"vocab_size", lm.vocab_size}};
  if (has_own_keys(lm.family)) {
    write_own_keys(lm, json);
  } else {
    write_rotary_model(lm, json);
  }
  if (model.has_rotary() && lm.family != CausalLmFamily::kGptJ) write_rotary(lm, json);
  json.update({{"initializer_range", lm.initializer_range},
               {"tie_word_embeddings", lm.tied},
               {"bos_token_id", lm.begin.value_or(*lm.end)},
               {"eos_token_id", *lm.end},
               {"use_cache", true},
               {"torch_dtype", "float32"}});
  return json.dump(2) + "\n";
}

}  // namespace mtf
