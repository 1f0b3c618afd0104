#include "trainer/programs/convert/causal_lm_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/base/check.h"
#include "trainer/programs/convert/causal_lm_models.h"

namespace mtf {
namespace {

/// Returns the id of a key: a number, or a list of which the first one counts.
std::optional<int32_t> parse_id(const HuggingFaceJson& json, const char* key, int64_t ids) {
  if (!json.has(key)) return std::nullopt;
  const nlohmann::json& given = json.at(key);
  const nlohmann::json& id = given.is_array() && !given.empty() ? given.front() : given;
  if (!id.is_number_unsigned() || id >= ids)
    json.fail(fmt::format("`{}` is {}, no id of a token", key, given.dump()),
              fmt::format("a number from 0 to {}", ids - 1));
  return id.get<int32_t>();
}

int64_t required_size(const HuggingFaceJson& json, const char* key) {
  if (!json.has(key)) json.fail(fmt::format("it has no `{}`", key), "a size");
  return json.size(key, 0);
}

/// What config.json says of rotary positions, under one key or another. Some keys stand in it or beside it.
struct RopeJson {
  HuggingFaceJson rope;
  const HuggingFaceJson& beside;

  double required(const char* key) const {
    if (!rope.has(key)) rope.fail(fmt::format("there is no `{}`", key), "a number");
    return rope.positive(key, 0);
  }
  /// transformers takes what stands beside the other keys first.
  int64_t original_length() const {
    const char* const length = "original_max_position_embeddings";
    const int64_t size = beside.size(length, rope.size(length, beside.size("max_position_embeddings", 0)));
    if (size == 0) rope.fail(fmt::format("there is no `{}`", length), "a number");
    return size;
  }
};

Llama3RotaryScaling parse_llama3(const RopeJson& json) {
  Llama3RotaryScaling llama3;
  llama3.factor = json.required("factor");
  llama3.low_frequency = json.required("low_freq_factor");
  llama3.high_frequency = json.required("high_freq_factor");
  if (llama3.high_frequency <= llama3.low_frequency)
    json.rope.fail("`high_freq_factor` must be more than `low_freq_factor`",
                   "4 and 1, as Llama 3.1 has them");
  llama3.original_length = json.original_length();
  return llama3;
}

/// A factor that is null is that of the lengths.
YarnRotaryScaling parse_yarn(const RopeJson& json, const CausalLmConfig& lm) {
  const HuggingFaceJson& rope = json.rope;
  YarnRotaryScaling yarn;
  yarn.original_length = json.original_length();
  yarn.factor = rope.has_null("factor")
                    ? static_cast<double>(lm.max_positions) / static_cast<double>(yarn.original_length)
                    : json.required("factor");
  yarn.beta_fast = rope.positive("beta_fast", yarn.beta_fast);
  yarn.beta_slow = rope.positive("beta_slow", yarn.beta_slow);
  if (yarn.beta_fast < yarn.beta_slow)
    rope.fail("`beta_fast` must be `beta_slow` at least", "32 and 1, as in the paper");
  yarn.truncate = rope.flag("truncate", true);
  if (lm.rotary_base <= 1) rope.fail("yarn needs a `rope_theta` of more than 1", "10000");
  const auto magnitude = [&](double scale) {
    return yarn.factor <= 1 ? 1 : 0.1 * scale * std::log(yarn.factor) + 1;
  };
  if (rope.has("attention_factor")) {
    yarn.attention_factor = rope.positive("attention_factor", 1);
  } else if (rope.has("mscale") && rope.has("mscale_all_dim")) {
    yarn.attention_factor =
        magnitude(rope.positive("mscale", 1)) / magnitude(rope.positive("mscale_all_dim", 1));
  }
  return yarn;
}

/// Returns how rotary positions are scaled.
std::optional<RotaryScalingChoice> parse_scaling(const RopeJson& json, const CausalLmConfig& lm) {
  const std::string type = json.rope.text("rope_type", json.rope.text("type", "default"));
  if (type == "default") return std::nullopt;
  if (type == "llama3") return parse_llama3(json);
  if (type == "yarn") return parse_yarn(json, lm);
  if (type != "linear")
    json.rope.fail(fmt::format("`rope_type` is {}, which cannot be converted", type),
                   "one of default, linear, llama3, yarn");
  LinearRotaryScaling linear;
  linear.factor = json.required("factor");
  return linear;
}

/// Sets how many entries of a head are turned.
void parse_rotary_size(const RopeJson& json, const CausalLmModel& model, CausalLmConfig& lm) {
  const char *const share_key = "partial_rotary_factor", *const whole = "all entries of a head are turned";
  const bool is_neox = lm.family == CausalLmFamily::kGptNeoX;
  if (model.rotary_share == 0) {
    json.beside.require(share_key, 1.0, whole);
    json.rope.require(share_key, 1.0, whole);
  }
  const double beside = json.beside.positive(is_neox ? "rotary_pct" : share_key,
                                             model.rotary_share > 0 ? model.rotary_share : 1);
  const double share = json.rope.positive(share_key, beside);
  const auto turned = static_cast<int64_t>(static_cast<double>(lm.head_size) * share);
  if (share > 1 || turned == 0 || turned % 2 != 0)
    json.rope.fail(fmt::format("{} of the {} entries of a head have rotary positions", turned, lm.head_size),
                   fmt::format("a `{}` that makes an even number of them", share_key));
  if (turned < lm.head_size) lm.rotary_size = turned;
}

/// Since version 5 transformers writes rope_parameters with all that is said of rotary positions, those of a Gemma 3 for each
/// type of layers. Where rope_scaling is given, too, it stands in the place of them.
void parse_rotary(const HuggingFaceJson& json, const CausalLmModel& model, CausalLmConfig& lm) {
  const char *const scaling = "rope_scaling", *const parameters = "rope_parameters";
  const bool has_scaling = json.has(scaling) && !json.at(scaling).empty();
  HuggingFaceJson rope = json.object(has_scaling ? scaling : parameters);
  std::optional<double> base;
  if (lm.family == CausalLmFamily::kGemma3) {
    const HuggingFaceJson each = json.object(parameters);
    const HuggingFaceJson local = each.object("sliding_attention"), full = each.object("full_attention");
    local.require("rope_type", "default", "rotary positions of local attention are not scaled");
    lm.local_rotary_base = local.positive("rope_theta", json.positive("rope_local_base_freq", 10000));
    if (full.has("rope_theta")) base = full.positive("rope_theta", 0);
    if (!has_scaling && (each.has("full_attention") || each.has("sliding_attention"))) rope = full;
  }
  const char* const base_key = lm.family == CausalLmFamily::kGptNeoX ? "rotary_emb_base" : "rope_theta";
  lm.rotary_base = rope.positive("rope_theta", base.value_or(json.positive(base_key, model.rotary_base)));
  const RopeJson both{rope, json};
  parse_rotary_size(both, model, lm);
  lm.rotary_scaling = parse_scaling(both, lm);
}

/// Returns what `layer_types` says of each layer: whether its attention is local.
std::vector<bool> parse_layer_types(const HuggingFaceJson& json, int64_t layers) {
  const nlohmann::json& types = json.at("layer_types");
  if (!types.is_array() || std::ssize(types) != layers)
    json.fail(fmt::format("`layer_types` is no list of {} types", layers), "one for each layer");
  std::vector<bool> local;
  for (const nlohmann::json& type : types) {
    if (type != "full_attention" && type != "sliding_attention")
      json.fail(fmt::format("`layer_types` has {}, which cannot be converted", type.dump()),
                "full_attention, or sliding_attention");
    local.push_back(type == "sliding_attention");
  }
  return local;
}

/// Returns the window of local attention; nothing: there is none.
std::optional<int64_t> parse_window(const HuggingFaceJson& json, const CausalLmModel& model) {
  const bool has_window =
      has_switch(model.windows) ? json.flag("use_sliding_window", false) : model.windows != Windows::kNone;
  const bool is_given = json.has("sliding_window") || model.windows != Windows::kAllIfGiven;
  if (!has_window || !is_given || json.has_null("sliding_window")) return std::nullopt;
  return json.size("sliding_window", 4096);
}

/// Shortens a list to the part that repeats.
void reduce_to_pattern(std::vector<bool>& list) {
  const size_t all = list.size();
  for (size_t length = 1; length < all; ++length) {
    if (all % length != 0 ||
        !std::equal(list.begin() + static_cast<ptrdiff_t>(length), list.end(), list.begin()))
      continue;
    list.resize(length);
    return;
  }
}

/// Says whether the attention of a layer is local in a model with windows, where `layer_types` does not say.
bool is_local(const HuggingFaceJson& json, Windows windows, int64_t layer) {
  const auto upper = [&] { return layer >= json.size("max_window_layers", 28, 0); };
  switch (windows) {
    case Windows::kNone:
      return false;
    case Windows::kAll:
    case Windows::kAllUnlessListed:
    case Windows::kAllIfGiven:
    case Windows::kAllIfUsed:
      return true;
    case Windows::kUpper:
      return upper();
    case Windows::kLowerAlternate:
      return layer % 2 == 0 && !upper();
    case Windows::kAlternate:
      return layer % 2 == 0;
    case Windows::kFiveOfSix:
      return (layer + 1) % json.size("sliding_window_pattern", 6) != 0;
  }
  MTF_CHECK(false, "windows {}", static_cast<int>(windows));
}

void parse_windows(const HuggingFaceJson& json, const CausalLmModel& model, CausalLmConfig& lm) {
  lm.window = parse_window(json, model);
  lm.local.clear();
  for (int64_t layer = 0; layer < lm.num_layers; ++layer)
    lm.local.push_back(lm.window && is_local(json, model.windows, layer));
  if (json.has("layer_types")) {
    const std::vector<bool> types = parse_layer_types(json, lm.num_layers);
    const bool may_differ = lm.window && !are_alike(model.windows);
    if (types != lm.local && !may_differ)
      json.fail(fmt::format("`layer_types` has other windows than a {} of this file", model.type),
                lm.window ? "sliding_attention" : "full_attention");
    lm.local = types;
  }
  // A window that is as long as the longest row hides nothing; in a Gemma 3 local attention has rotary positions of its own.
  if (lm.window && *lm.window >= lm.max_positions && !lm.local_rotary_base)
    lm.local.assign(lm.local.size(), false);
  reduce_to_pattern(lm.local);
  if (lm.local == std::vector<bool>{false}) lm.window.reset();
  if (lm.family == CausalLmFamily::kMinistral && lm.pattern() == 1) lm.family = CausalLmFamily::kMistral;
  const bool is_llama = !lm.window && !lm.has_odd_heads();
  if (lm.family == CausalLmFamily::kMistral && is_llama) lm.family = CausalLmFamily::kLlama;
}

void parse_gpt2(const HuggingFaceJson& json, CausalLmConfig& lm) {
  json.require("scale_attn_weights", true, "queries are divided by the root of their size");
  json.require("scale_attn_by_inverse_layer_idx", false,
               "logits of attention are scaled alike in all layers");
  json.require("add_cross_attention", false, "there is no encoder");
  lm.hidden = json.size("n_embd", 768);
  lm.num_layers = json.size("n_layer", 12);
  lm.num_heads = lm.num_memory_heads = json.size("n_head", 12);
  lm.intermediate = json.size("n_inner", 4 * lm.hidden);
  lm.max_positions = json.size("n_positions", model_of(lm.family).max_positions);
  lm.activation = parse_activation(json, "activation_function", "gelu_new");
  lm.attention_bias = AttentionBias::kAll;
  lm.feed_forward_bias = true;
  lm.epsilon = json.number("layer_norm_epsilon", 1e-5);
  lm.dropout = json.number("resid_pdrop", 0.1);
  lm.embedding_dropout = json.number("embd_pdrop", 0.1);
  lm.attention_dropout = json.number("attn_pdrop", 0.1);
  if (lm.hidden % lm.num_heads != 0)
    json.fail(fmt::format("`n_embd` {} cannot be divided among {} heads", lm.hidden, lm.num_heads));
  lm.head_size = lm.hidden / lm.num_heads;
}

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
  const bool has_own_size = json.has("head_dim") && !lm.has_layer_norm();
  if (!has_own_size && model.head_size == 0 && lm.hidden % lm.num_heads != 0)
    json.fail(fmt::format("`hidden_size` {} cannot be divided among {} heads", lm.hidden, lm.num_heads),
              lm.has_layer_norm() ? "" : "`head_dim`");
  if (lm.family == CausalLmFamily::kOlmoe || lm.has_layer_norm())
    json.require("head_dim", head_size, "queries have `hidden_size` entries");
  lm.head_size = json.size("head_dim", head_size);
  if (model.rotary_share == 0 && lm.head_size % 2 != 0)
    json.fail(fmt::format("heads of {} entries have no rotary positions", lm.head_size), "an even number");
  if (lm.num_heads % lm.num_memory_heads != 0)
    json.fail(
        fmt::format("{} heads cannot share {} `num_key_value_heads`", lm.num_heads, lm.num_memory_heads));
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
  if (lm.has_gates()) return "silu";
  return lm.family == CausalLmFamily::kPhi ? "gelu_new" : "gelu";
}

void parse_rotary_model(const HuggingFaceJson& json, const CausalLmModel& model, CausalLmConfig& lm) {
  lm.hidden = required_size(json, "hidden_size");
  lm.num_layers = required_size(json, "num_hidden_layers");
  const bool is_qwen_moe = lm.family == CausalLmFamily::kQwen2Moe || lm.family == CausalLmFamily::kQwen3Moe;
  lm.intermediate = required_size(json, is_qwen_moe ? "moe_intermediate_size" : "intermediate_size");
  if (model.experts_per_token > 0) lm.experts = parse_experts(json, model);
  parse_heads(json, model, lm);
  lm.max_positions = json.size("max_position_embeddings", model.max_positions);
  lm.activation = parse_activation(json, lm.has_outer_norms() ? "hidden_activation" : "hidden_act",
                                   default_activation(lm));
  // The first files of Gemma 1 say gelu and mean this approximation.
  if (lm.family == CausalLmFamily::kGemma && lm.activation == Activation::kGeluErf)
    lm.activation = Activation::kGelu;
  lm.epsilon = json.number(lm.has_layer_norm() ? "layer_norm_eps" : "rms_norm_eps", model.epsilon);
  lm.attention_dropout = json.number("attention_dropout", 0);
  lm.attention_bias = parse_attention_bias(json, lm.family);
  lm.feed_forward_bias = !lm.has_gates() || (may_have_unit_biases(lm.family) && json.flag("mlp_bias", false));
  if (lm.family == CausalLmFamily::kGranite) parse_granite(json, lm);
  if (lm.has_layer_norm()) parse_parallel_model(json, lm);
  if (lm.family == CausalLmFamily::kOlmoe)
    json.require("clip_qkv", nullptr, "queries, keys and values have no bounds");
  lm.is_fused = model.is_fused;
  for (const char* rate : {"resid_pdrop", "embd_pdrop"})
    if (lm.is_fused) json.require(rate, 0.0, "there is dropout only in attention");
  parse_rotary(json, model, lm);
  if (lm.is_gemma()) parse_gemma(json, model, lm);
}

}  // namespace

QkNorm CausalLmConfig::qk_norm() const {
  using enum CausalLmFamily;
  if (family == kOlmoe || family == kOlmo2) return QkNorm::kAllHeads;
  return family == kQwen3 || family == kGemma3 || family == kQwen3Moe ? QkNorm::kEachHead : QkNorm::kNone;
}

CausalLmConfig parse_causal_lm_config(const std::string& text, const std::string& path) {
  const HuggingFaceJson json(text, path);
  const std::string type = json.text("model_type", "none");
  const std::span<const CausalLmModel> models = causal_lm_models();
  const auto model = std::ranges::find(models, type, &CausalLmModel::type);
  if (model == models.end())
    json.fail(fmt::format("`model_type` is {}, which cannot be converted", type),
              std::string(kConvertedModelTypes));
  json.require("is_encoder_decoder", false, "a language model has no encoder");
  CausalLmConfig lm;
  lm.family = model->family;
  lm.form = model->form;
  lm.vocab_size = required_size(json, "vocab_size");
  if (lm.vocab_size < 2) json.fail("`vocab_size` is 1", "at least 2");
  lm.begin = parse_id(json, "bos_token_id", lm.vocab_size);
  lm.end = parse_id(json, "eos_token_id", lm.vocab_size);
  lm.tied = json.flag("tie_word_embeddings", model->tied);
  lm.initializer_range = json.number("initializer_range", lm.initializer_range);
  if (lm.is_gpt2()) {
    parse_gpt2(json, lm);
  } else {
    parse_rotary_model(json, *model, lm);
  }
  parse_windows(json, *model, lm);
  return lm;
}

}  // namespace mtf
