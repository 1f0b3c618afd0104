#include "trainer/programs/convert/causal_lm_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trainer/programs/convert/causal_lm_models.h"
#include "trainer/programs/convert/causal_lm_own_keys.h"
#include "trainer/programs/convert/causal_lm_parsing.h"

namespace mtf {
namespace {

/// A cap that is null is none.
std::optional<double> parse_cap(const HuggingFaceJson& json, const char* key,
                                std::optional<double> otherwise) {
  return json.has(key) ? json.positive(key, 0) : json.has_null(key) ? std::nullopt : otherwise;
}

void parse_gemma(const HuggingFaceJson& json, const CausalLmModel& model, CausalLmConfig& lm) {
  json.require("use_bidirectional_attention", false, "no position sees what follows it");
  if (!lm.has_outer_norms()) return;
  if (const int64_t size = json.size("query_pre_attn_scalar", 256); size != lm.head_size)
    lm.scaling_size = size;
  lm.logit_soft_cap = parse_cap(json, "final_logit_softcapping", model.logit_soft_cap);
  if (lm.family == CausalLmFamily::kGemma2)
    lm.attention_soft_cap = parse_cap(json, "attn_logit_softcapping", model.attention_soft_cap);
}

/// Returns the number of experts, which stands under one of two keys.
int64_t parse_expert_count(const HuggingFaceJson& json) {
  const char *const key = "num_experts", *const local_key = "num_local_experts";
  if (!json.has(key)) return required_size(json, local_key);
  const int64_t count = json.size(key, 0);
  if (json.size(local_key, count) != count)
    json.fail(fmt::format("`{}` is {}, and `{}` is {}", key, count, local_key, json.at(local_key).dump()),
              "the same number");
  return count;
}

CausalLmExperts parse_experts(const HuggingFaceJson& json, const CausalLmModel& model) {
  const char* const in_each = "all blocks have experts";
  json.require("decoder_sparse_step", 1, in_each);
  json.require("mlp_only_layers", nlohmann::json::array(), in_each);
  CausalLmExperts experts;
  experts.count = parse_expert_count(json);
  const char* const per_token = "num_experts_per_tok";
  experts.per_token = json.size(per_token, model.experts_per_token);
  if (experts.per_token > experts.count)
    json.fail(
        fmt::format("`{}` is {}, and there are {} experts", per_token, experts.per_token, experts.count),
        fmt::format("at most {}", experts.count));
  if (model.family != CausalLmFamily::kMixtral) experts.normalized = json.flag("norm_topk_prob", false);
  if (model.family == CausalLmFamily::kQwen2Moe)
    experts.shared_hidden = required_size(json, "shared_expert_intermediate_size");
  const char* const balance_coef = "router_aux_loss_coef";
  const bool is_balanced = !json.has(balance_coef) || json.at(balance_coef) != 0;
  if (is_balanced) experts.balance_coef = json.positive(balance_coef, model.balance_coef);
  experts.has_noise = json.number("router_jitter_noise", 0) > 0;
  return experts;
}

AttentionBias parse_attention_bias(const HuggingFaceJson& json, CausalLmFamily family) {
  const bool is_qwen2_moe = family == CausalLmFamily::kQwen2Moe;
  if (family == CausalLmFamily::kPhi) return AttentionBias::kAll;
  if (family == CausalLmFamily::kGlm || family == CausalLmFamily::kGlm4)
    return json.flag("attention_bias", true) ? AttentionBias::kInputs : AttentionBias::kNone;
  if (family == CausalLmFamily::kStarcoder2)
    return json.flag("use_bias", true) ? AttentionBias::kAll : AttentionBias::kNone;
  if (family == CausalLmFamily::kStableLm && json.flag("use_qkv_bias", false)) return AttentionBias::kInputs;
  if (family == CausalLmFamily::kQwen2 || (is_qwen2_moe && json.flag("qkv_bias", true)))
    return AttentionBias::kInputs;
  const bool is_neox = family == CausalLmFamily::kGptNeoX;
  return may_have_all_biases(family) && json.flag("attention_bias", is_neox) ? AttentionBias::kAll
                                                                             : AttentionBias::kNone;
}

void parse_heads(const HuggingFaceJson& json, const CausalLmModel& model, CausalLmConfig& lm) {
  lm.num_heads = required_size(json, "num_attention_heads");
  lm.num_memory_heads = lm.num_heads;
  if (lm.family != CausalLmFamily::kGptNeoX)
    lm.num_memory_heads =
        json.size("num_key_value_heads", model.memory_heads > 0 ? model.memory_heads : lm.num_heads);
  const int64_t head_size = model.head_size > 0 ? model.head_size : lm.hidden / lm.num_heads;
  const bool has_one_size = lm.family == CausalLmFamily::kOlmoe || model.has_layer_norm,
             has_own_size = json.has("head_dim") && !model.has_layer_norm;
  if (!has_own_size && model.head_size == 0 && lm.hidden % lm.num_heads != 0)
    json.fail(fmt::format("`hidden_size` {} cannot be divided among {} heads", lm.hidden, lm.num_heads),
              model.has_layer_norm ? "" : "`head_dim`");
  if (has_one_size) json.require("head_dim", head_size, "queries have `hidden_size` entries");
  lm.head_size = json.size("head_dim", head_size);
  if (model.rotary_share == 0 && lm.head_size % 2 != 0)
    json.fail(fmt::format("heads of {} entries have no rotary positions", lm.head_size), "an even number");
  check_heads_share(json, "num_key_value_heads", lm);
}

void parse_granite(const HuggingFaceJson& json, CausalLmConfig& lm) {
  lm.scales = {.embedding = json.positive("embedding_multiplier", 1),
               .residual = json.positive("residual_multiplier", 1),
               .logit_divisor = json.positive("logits_scaling", 1)};
  const char* const key = "attention_multiplier";
  const double multiplier = json.positive(key, 1), size = std::round(1 / (multiplier * multiplier));
  if (size > 1e9 || std::abs(1 / std::sqrt(size) - multiplier) > 1e-9 * multiplier)
    json.fail(fmt::format("`{}` is {}, which is no root of 1 / n", key, multiplier),
              "a number such as 0.015625, with which n is 4096");
  if (size != static_cast<double>(lm.head_size)) lm.scaling_size = static_cast<int64_t>(size);
}

void parse_cohere(const HuggingFaceJson& json, CausalLmConfig& lm) {
  json.require("use_qk_norm", false, "queries and keys have no layer_norm");
  if (const double factor = json.positive("logit_scale", 0.0625); factor != 1)
    lm.scales = {.logit_divisor = rounded_coefficient(1 / factor)};
}

void parse_starcoder2(const HuggingFaceJson& json, CausalLmConfig& lm) {
  json.require("norm_type", "layer_norm", "norms are layer_norm");
  json.require("mlp_type", "default", "units have no gates");
  lm.epsilon = json.number("norm_epsilon", lm.model().epsilon);
  lm.feed_forward_bias = lm.attention_bias == AttentionBias::kAll;
  lm.dropout = json.number("residual_dropout", 0);
  lm.embedding_dropout = json.number("embedding_dropout", 0);
}

void parse_nemotron(const HuggingFaceJson& json, CausalLmConfig& lm) {
  lm.epsilon = json.number("norm_eps", lm.model().epsilon);
  lm.feed_forward_bias = json.flag("mlp_bias", false);
}

/// A Seed-OSS is a Qwen2 with keys of its own.
void parse_seed_oss(const HuggingFaceJson& json, CausalLmConfig& lm) {
  const char* const biases = "only queries, keys and values have biases";
  json.require("attention_bias", true, biases);
  json.require("attention_out_bias", false, biases);
  json.require("mlp_bias", false, biases);
  if (json.number("residual_dropout", 0) > 0)
    lm.notes.emplace_back("`residual_dropout` is left out: there is dropout only in attention");
}

/// What stands in config.json of a GPT-NeoX, a Phi or a StableLM alone.
void parse_parallel_model(const HuggingFaceJson& json, CausalLmConfig& lm) {
  using enum CausalLmFamily;
  json.require("qk_layernorm", false, "queries and keys have no layer_norm");
  if (lm.family == kPhi) {
    lm.logit_bias = true;
    lm.dropout = json.number("resid_pdrop", 0);
    lm.embedding_dropout = json.number("embd_pdrop", 0);
    return;
  }
  const bool is_neox = lm.family == kGptNeoX;
  if (is_neox) {
    lm.dropout = lm.embedding_dropout = json.number("hidden_dropout", 0);
  } else {
    json.require("hidden_dropout", 0.0, "there is dropout only in attention");
  }
  const BlockForm parallel = is_neox ? BlockForm::kParallelNorms : BlockForm::kParallel;
  lm.form = json.flag("use_parallel_residual", is_neox) ? parallel : BlockForm::kNormsBefore;
}

std::string default_activation(const CausalLmConfig& lm) {
  if (lm.is_gemma()) return "gelu_pytorch_tanh";
  if (lm.family == CausalLmFamily::kNemotron) return "relu2";
  if (lm.model().has_gates) return "silu";
  return lm.family == CausalLmFamily::kGptNeoX ? "gelu" : "gelu_new";
}

void parse_rotary_model(const HuggingFaceJson& json, const CausalLmModel& model, CausalLmConfig& lm) {
  lm.hidden = required_size(json, "hidden_size");
  lm.num_layers = required_size(json, "num_hidden_layers");
  const bool is_qwen_moe = lm.family == CausalLmFamily::kQwen2Moe || lm.family == CausalLmFamily::kQwen3Moe;
  lm.intermediate = required_size(json, is_qwen_moe ? "moe_intermediate_size" : "intermediate_size");
  if (model.experts_per_token > 0) lm.experts = parse_experts(json, model);
  parse_heads(json, model, lm);
  lm.max_positions = json.size("max_position_embeddings", model.max_positions);
  lm.activation =
      parse_activation(json, lm.is_gemma() && lm.has_outer_norms() ? "hidden_activation" : "hidden_act",
                       default_activation(lm));
  // The first files of Gemma 1 say gelu and mean this approximation.
  if (lm.family == CausalLmFamily::kGemma && lm.activation == Activation::kGeluErf)
    lm.activation = Activation::kGelu;
  lm.epsilon = json.number(model.has_layer_norm ? "layer_norm_eps" : "rms_norm_eps", model.epsilon);
  lm.attention_dropout = json.number("attention_dropout", 0);
  lm.attention_bias = parse_attention_bias(json, lm.family);
  lm.feed_forward_bias =
      !model.has_gates || (may_have_unit_biases(lm.family) && json.flag("mlp_bias", false));
  if (lm.family == CausalLmFamily::kGranite) parse_granite(json, lm);
  if (lm.family == CausalLmFamily::kCohere) {
    parse_cohere(json, lm);
  } else if (lm.family == CausalLmFamily::kStarcoder2) {
    parse_starcoder2(json, lm);
  } else if (lm.family == CausalLmFamily::kNemotron) {
    parse_nemotron(json, lm);
  } else if (model.has_layer_norm) {
    parse_parallel_model(json, lm);
  }
  if (model.type == "seed_oss") parse_seed_oss(json, lm);
  if (model.type == "ernie4_5") json.require("use_bias", false, "projections have no biases");
  if (lm.family == CausalLmFamily::kOlmoe)
    json.require("clip_qkv", nullptr, "queries, keys and values have no bounds");
  lm.is_fused = model.is_fused;
  for (const char* rate : {"resid_pdrop", "embd_pdrop"})
    if (lm.is_fused) json.require(rate, 0.0, "there is dropout only in attention");
  if (lm.is_gemma()) parse_gemma(json, model, lm);
}

}  // namespace

QkNorm CausalLmConfig::qk_norm() const {
  using enum CausalLmFamily;
  if (family == kOlmoe || family == kOlmo2 || family == kOlmo3) return QkNorm::kAllHeads;
  return family == kQwen3 || family == kGemma3 || family == kQwen3Moe ? QkNorm::kEachHead : QkNorm::kNone;
}

bool CausalLmConfig::is_gemma() const {
  using enum CausalLmFamily;
  return family == kGemma || family == kGemma2 || family == kGemma3;
}

bool CausalLmConfig::has_layers_without_rotary() const {
  const auto with = std::ranges::count(kinds, true, &AttentionKind::has_rotary);
  return with > 0 && with < std::ssize(kinds);
}

const CausalLmModel& CausalLmConfig::model() const { return model_of(family); }

int64_t required_size(const HuggingFaceJson& json, const char* key) {
  if (!json.has(key)) json.fail(fmt::format("it has no `{}`", key), "a size");
  return json.size(key, 0);
}

void check_heads_share(const HuggingFaceJson& json, const char* key, const CausalLmConfig& lm) {
  if (lm.num_heads % lm.num_memory_heads != 0)
    json.fail(fmt::format("{} heads cannot share {} `{}`", lm.num_heads, lm.num_memory_heads, key));
}

std::string coefficient_text(double value) { return fmt::format("{:.12g}", value); }

double rounded_coefficient(double value) { return std::stod(coefficient_text(value)); }

CausalLmConfig parse_causal_lm_config(const std::string& text, const std::string& path) {
  const HuggingFaceJson json(text, path);
  const std::string type = json.text("model_type", "none");
  const std::span<const CausalLmModel> models = causal_lm_models();
  const auto model = std::ranges::find(models, type, &CausalLmModel::type);
  if (model == models.end())
    json.fail(fmt::format("`model_type` is {}, which cannot be converted", type),
              fmt::format("one of {}", fmt::join(causal_lm_types(), ", ")));
  json.require("is_encoder_decoder", false, "a language model has no encoder");
  CausalLmConfig lm;
  lm.family = model->family;
  lm.form = model->form;
  lm.has_pairs_together = model->has_pairs_together;
  lm.vocab_size = required_size(json, "vocab_size");
  if (lm.vocab_size < 2) json.fail("`vocab_size` is 1", "at least 2");
  lm.begin = parse_token_id(json, "bos_token_id", lm.vocab_size);
  lm.end = parse_token_id(json, "eos_token_id", lm.vocab_size);
  lm.tied = json.flag("tie_word_embeddings", model->tied);
  lm.initializer_range = json.number("initializer_range", lm.initializer_range);
  if (has_own_keys(lm.family)) {
    parse_own_keys(json, lm);
  } else {
    parse_rotary_model(json, *model, lm);
  }
  if (model->has_rotary()) parse_causal_lm_rotary(json, *model, lm);
  parse_layer_kinds(json, *model, lm);
  return lm;
}

}  // namespace mtf
