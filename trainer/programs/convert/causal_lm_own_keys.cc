// Reads config.json of the language models whose keys have names of their own, and writes it: GPT-2, GPT-J, OPT, BLOOM, MPT and
// Falcon.
#include "trainer/programs/convert/causal_lm_own_keys.h"

#include <fmt/format.h>

#include "trainer/programs/convert/causal_lm_parsing.h"

namespace mtf {
namespace {

/// Sets the size of heads, which divide a vector among them.
void divide_among_heads(const HuggingFaceJson& json, const char* hidden_key, CausalLmConfig& lm) {
  if (lm.hidden % lm.num_heads != 0)
    json.fail(fmt::format("`{}` {} cannot be divided among {} heads", hidden_key, lm.hidden, lm.num_heads));
  lm.head_size = lm.hidden / lm.num_heads;
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
  lm.max_positions = json.size("n_positions", lm.model().max_positions);
  lm.activation = parse_activation(json, "activation_function", "gelu_new");
  lm.attention_bias = AttentionBias::kAll;
  lm.feed_forward_bias = true;
  lm.epsilon = json.number("layer_norm_epsilon", 1e-5);
  lm.dropout = json.number("resid_pdrop", 0.1);
  lm.embedding_dropout = json.number("embd_pdrop", 0.1);
  lm.attention_dropout = json.number("attn_pdrop", 0.1);
  divide_among_heads(json, "n_embd", lm);
}

void parse_gptj(const HuggingFaceJson& json, CausalLmConfig& lm) {
  lm.hidden = json.size("n_embd", 4096);
  lm.num_layers = json.size("n_layer", 28);
  lm.num_heads = lm.num_memory_heads = json.size("n_head", 16);
  lm.intermediate = json.size("n_inner", 4 * lm.hidden);
  lm.max_positions = json.size("n_positions", lm.model().max_positions);
  lm.activation = parse_activation(json, "activation_function", "gelu_new");
  lm.feed_forward_bias = lm.logit_bias = true;
  lm.epsilon = json.number("layer_norm_epsilon", lm.model().epsilon);
  lm.dropout = json.number("resid_pdrop", 0);
  lm.embedding_dropout = json.number("embd_pdrop", 0);
  lm.attention_dropout = json.number("attn_pdrop", 0);
  divide_among_heads(json, "n_embd", lm);
}

/// transformers has 4 times as many units as entries of a vector, whatever `expansion_ratio` says.
void parse_mpt(const HuggingFaceJson& json, CausalLmConfig& lm) {
  json.require("no_bias", true, "no projection has a bias");
  json.require("logit_scale", nullptr, "logits are not scaled");
  const HuggingFaceJson attention = json.object("attn_config");
  attention.require("alibi", true, "logits of attention fall with the distance");
  attention.require("alibi_bias_max", 8, "slopes are those of the paper");
  attention.require("clip_qkv", nullptr, "queries, keys and values have no bounds");
  attention.require("softmax_scale", nullptr, "queries are divided by the root of their size");
  attention.require("qk_ln", false, "queries and keys have no layer_norm");
  attention.require("prefix_lm", false, "no position sees what follows it");
  attention.require("attn_pdrop", 0, "there is no dropout");
  lm.hidden = json.size("d_model", 2048);
  lm.num_layers = json.size("n_layers", 24);
  lm.num_heads = lm.num_memory_heads = json.size("n_heads", 16);
  lm.intermediate = 4 * lm.hidden;
  lm.max_positions = json.size("max_seq_len", lm.model().max_positions);
  lm.activation = Activation::kGeluErf;
  lm.epsilon = json.number("layer_norm_epsilon", lm.model().epsilon);
  divide_among_heads(json, "d_model", lm);
}

/// The epsilon of the norms of an OPT is none of its keys.
void parse_opt(const HuggingFaceJson& json, CausalLmConfig& lm) {
  const char* const norms =
      "norms stand before the layers and behind the last one, as in all OPT but OPT-350m";
  json.require("do_layer_norm_before", true, norms);
  json.require("_remove_final_layer_norm", false, norms);
  json.require("layer_norm_elementwise_affine", true, "norms have scales and biases");
  json.require("layerdrop", 0.0, "no layers are left out in training");
  json.require("activation_dropout", 0.0, "there is no dropout of units");
  lm.hidden = json.size("hidden_size", 768);
  json.require("word_embed_proj_dim", lm.hidden,
               "embeddings have `hidden_size` entries, as in all OPT but OPT-350m");
  lm.num_layers = json.size("num_hidden_layers", 12);
  lm.num_heads = lm.num_memory_heads = json.size("num_attention_heads", 12);
  lm.intermediate = json.size("ffn_dim", 3072);
  lm.max_positions = json.size("max_position_embeddings", lm.model().max_positions);
  lm.activation = parse_activation(json, "activation_function", "relu");
  lm.feed_forward_bias = json.flag("enable_bias", true);
  lm.attention_bias = lm.feed_forward_bias ? AttentionBias::kAll : AttentionBias::kNone;
  lm.epsilon = lm.model().epsilon;
  lm.dropout = json.number("dropout", 0.1);
  lm.attention_dropout = json.number("attention_dropout", 0);
  lm.initializer_range = json.number("init_std", lm.initializer_range);
  divide_among_heads(json, "hidden_size", lm);
}

/// Sets the heads of keys and values, and where norms stand. The new architecture is that of Falcon-40B.
void parse_falcon_architecture(const HuggingFaceJson& json, CausalLmConfig& lm) {
  const char* const parallel = "parallel_attn";
  lm.num_memory_heads = json.size("num_kv_heads", lm.num_heads);
  if (json.flag("new_decoder_architecture", false)) {
    json.require(parallel, true, "the new architecture has parallel layers");
    const int64_t norms = json.size("num_ln_in_parallel_attn", 2);
    if (norms > 2) json.fail(fmt::format("`num_ln_in_parallel_attn` is {}", norms), "1, or 2");
    lm.form = norms == 2 ? BlockForm::kParallelNorms : BlockForm::kParallel;
    return;
  }
  json.require("num_ln_in_parallel_attn", 1,
               "only the new architecture has a norm for each of its parallel layers");
  if (json.flag("multi_query", true)) lm.num_memory_heads = 1;
  lm.form = json.flag(parallel, true) ? BlockForm::kParallel : BlockForm::kNormsBefore;
  if (!lm.is_parallel()) json.require("attention_dropout", 0.0, "the result of attention has no dropout");
}

/// Returns a size that has one of two names.
int64_t size_of_either(const HuggingFaceJson& json, const char* key, const char* other) {
  return json.has(key) ? json.size(key, 0) : required_size(json, other);
}

void parse_bloom(const HuggingFaceJson& json, CausalLmConfig& lm) {
  json.require("apply_residual_connection_post_layernorm", false, "what is added is not normalised");
  json.require("n_inner", nullptr, "there are 4 times as many units as entries of a vector");
  lm.hidden = size_of_either(json, "hidden_size", "n_embed");
  lm.num_layers = size_of_either(json, "n_layer", "num_hidden_layers");
  lm.num_heads = lm.num_memory_heads = size_of_either(json, "n_head", "num_attention_heads");
  lm.intermediate = 4 * lm.hidden;
  lm.max_positions = json.size("seq_length", lm.model().max_positions);
  lm.activation = Activation::kGelu;
  lm.attention_bias = AttentionBias::kAll;
  lm.feed_forward_bias = true;
  lm.epsilon = json.number("layer_norm_epsilon", lm.model().epsilon);
  lm.dropout = json.number("hidden_dropout", 0);
  lm.attention_dropout = json.number("attention_dropout", 0);
  divide_among_heads(json, "hidden_size", lm);
}

void parse_falcon(const HuggingFaceJson& json, CausalLmConfig& lm) {
  json.require("alibi", false, "positions are rotary");
  json.require("apply_residual_connection_post_layernorm", false, "what is added is not normalised");
  json.require("hidden_dropout", 0.0, "there is dropout only in attention");
  lm.hidden = required_size(json, "hidden_size");
  lm.num_layers = required_size(json, "num_hidden_layers");
  lm.num_heads = required_size(json, "num_attention_heads");
  parse_falcon_architecture(json, lm);
  check_heads_share(json, "num_kv_heads", lm);
  lm.intermediate = json.size("ffn_hidden_size", 4 * lm.hidden);
  lm.max_positions = json.size("max_position_embeddings", lm.model().max_positions);
  lm.activation = parse_activation(json, "activation", "gelu");
  lm.feed_forward_bias = json.flag("bias", false);
  lm.attention_bias = lm.feed_forward_bias ? AttentionBias::kAll : AttentionBias::kNone;
  lm.epsilon = json.number("layer_norm_epsilon", lm.model().epsilon);
  lm.attention_dropout = json.number("attention_dropout", 0);
  divide_among_heads(json, "hidden_size", lm);
}

void write_gpt2(const CausalLmConfig& lm, nlohmann::ordered_json& json) {
  json.update({{"n_embd", lm.hidden},
               {"n_layer", lm.num_layers},
               {"n_head", lm.num_heads},
               {"n_inner", lm.intermediate},
               {"n_positions", lm.max_positions},
               {"activation_function", activation_name(lm.activation)},
               {"layer_norm_epsilon", lm.epsilon},
               {"resid_pdrop", lm.dropout},
               {"embd_pdrop", lm.embedding_dropout},
               {"attn_pdrop", lm.attention_dropout},
               {"scale_attn_weights", true},
               {"scale_attn_by_inverse_layer_idx", false}});
  if (lm.intermediate == 4 * lm.hidden) json["n_inner"] = nullptr;
}

void write_gptj(const CausalLmConfig& lm, nlohmann::ordered_json& json) {
  json.update({{"n_embd", lm.hidden},
               {"n_layer", lm.num_layers},
               {"n_head", lm.num_heads},
               {"n_inner", lm.intermediate},
               {"n_positions", lm.max_positions},
               {"rotary_dim", lm.rotary_size.value_or(lm.head_size)},
               {"activation_function", activation_name(lm.activation)},
               {"layer_norm_epsilon", lm.epsilon},
               {"resid_pdrop", lm.dropout},
               {"embd_pdrop", lm.embedding_dropout},
               {"attn_pdrop", lm.attention_dropout}});
}

void write_mpt(const CausalLmConfig& lm, nlohmann::ordered_json& json) {
  json.update({{"d_model", lm.hidden},
               {"n_layers", lm.num_layers},
               {"n_heads", lm.num_heads},
               {"expansion_ratio", 4},
               {"max_seq_len", lm.max_positions},
               {"layer_norm_epsilon", lm.epsilon},
               {"no_bias", true},
               {"attn_config", {{"alibi", true}, {"alibi_bias_max", 8}, {"attn_pdrop", 0}}}});
}

void write_opt(const CausalLmConfig& lm, nlohmann::ordered_json& json) {
  json.update({{"hidden_size", lm.hidden},
               {"num_hidden_layers", lm.num_layers},
               {"num_attention_heads", lm.num_heads},
               {"ffn_dim", lm.intermediate},
               {"max_position_embeddings", lm.max_positions},
               {"activation_function", activation_name(lm.activation)},
               {"do_layer_norm_before", true},
               {"_remove_final_layer_norm", false},
               {"layer_norm_elementwise_affine", true},
               {"word_embed_proj_dim", lm.hidden},
               {"enable_bias", lm.feed_forward_bias},
               {"dropout", lm.dropout},
               {"attention_dropout", lm.attention_dropout},
               {"layerdrop", 0.0},
               {"init_std", lm.initializer_range}});
}

void write_bloom(const CausalLmConfig& lm, nlohmann::ordered_json& json) {
  json.update({{"hidden_size", lm.hidden},
               {"n_layer", lm.num_layers},
               {"n_head", lm.num_heads},
               {"seq_length", lm.max_positions},
               {"apply_residual_connection_post_layernorm", false},
               {"slow_but_exact", false},
               {"layer_norm_epsilon", lm.epsilon},
               {"hidden_dropout", lm.dropout},
               {"attention_dropout", lm.attention_dropout}});
}

/// Heads of keys and values that are neither one nor as many as those of queries need the new architecture.
void write_falcon(const CausalLmConfig& lm, nlohmann::ordered_json& json) {
  const bool is_multi_query = lm.num_memory_heads == 1, has_norms = lm.form == BlockForm::kParallelNorms,
             is_new = has_norms || (!is_multi_query && lm.num_memory_heads != lm.num_heads);
  json.update({{"hidden_size", lm.hidden},
               {"num_hidden_layers", lm.num_layers},
               {"num_attention_heads", lm.num_heads},
               {"num_kv_heads", lm.num_memory_heads},
               {"new_decoder_architecture", is_new},
               {"num_ln_in_parallel_attn", has_norms ? 2 : 1},
               {"multi_query", is_new || is_multi_query},
               {"parallel_attn", lm.is_parallel()},
               {"alibi", false},
               {"ffn_hidden_size", lm.intermediate},
               {"max_position_embeddings", lm.max_positions},
               {"activation", activation_name(lm.activation)},
               {"bias", lm.feed_forward_bias},
               {"layer_norm_epsilon", lm.epsilon},
               {"hidden_dropout", 0.0},
               {"attention_dropout", lm.attention_dropout}});
}

}  // namespace

bool has_own_keys(CausalLmFamily family) {
  using enum CausalLmFamily;
  return family == kGpt2 || family == kGptJ || family == kOpt || family == kBloom || family == kMpt ||
         family == kFalcon;
}

void parse_own_keys(const HuggingFaceJson& json, CausalLmConfig& lm) {
  if (lm.family == CausalLmFamily::kGpt2) return parse_gpt2(json, lm);
  if (lm.family == CausalLmFamily::kGptJ) return parse_gptj(json, lm);
  if (lm.family == CausalLmFamily::kMpt) return parse_mpt(json, lm);
  if (lm.family == CausalLmFamily::kOpt) return parse_opt(json, lm);
  if (lm.family == CausalLmFamily::kBloom) return parse_bloom(json, lm);
  parse_falcon(json, lm);
}

void write_own_keys(const CausalLmConfig& lm, nlohmann::ordered_json& json) {
  if (lm.family == CausalLmFamily::kGpt2) return write_gpt2(lm, json);
  if (lm.family == CausalLmFamily::kGptJ) return write_gptj(lm, json);
  if (lm.family == CausalLmFamily::kMpt) return write_mpt(lm, json);
  if (lm.family == CausalLmFamily::kOpt) return write_opt(lm, json);
  if (lm.family == CausalLmFamily::kBloom) return write_bloom(lm, json);
  write_falcon(lm, json);
}

}  // namespace mtf
