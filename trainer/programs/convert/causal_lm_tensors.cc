#include "trainer/programs/convert/causal_lm_tensors.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <numeric>
#include <string_view>
#include <vector>

#include "engine/base/replace_all.h"
#include "trainer/programs/convert/causal_lm_models.h"

namespace mtf {
namespace {

using TensorNames = std::map<std::string, CausalLmTensor>;

/// The tensors that do not depend on the block.
TensorNames outer_tensors(const CausalLmConfig& lm) {
  const auto names = [&](const std::string& embedding, const std::string& norm, const std::string& softmax) {
    return TensorNames{{"embedding", {{embedding}, {}, true}},
                       {"rms_norm/scale", {{norm + ".weight"}}},
                       {"layer_norm/layer_norm_scale", {{norm + ".weight"}}},
                       {"layer_norm/layer_norm_bias", {{norm + ".bias"}}},
                       {"logits/kernel", {{softmax + ".weight", true}, {}, true}},
                       {"logits/bias", {{softmax + ".bias"}, {}, true}}};
  };
  using enum CausalLmFamily;
  if (lm.family == kGpt2) {
    TensorNames gpt2 = names("transformer.wte.weight", "transformer.ln_f", "lm_head");
    gpt2["positional_embedding"] = {{"transformer.wpe.weight"}};
    return gpt2;
  }
  if (lm.family == kGptJ) return names("transformer.wte.weight", "transformer.ln_f", "lm_head");
  if (lm.family == kMpt) return names("transformer.wte.weight", "transformer.norm_f", "lm_head");
  if (lm.family == kOpt) {
    TensorNames opt = names("model.decoder.embed_tokens.weight", "model.decoder.final_layer_norm", "lm_head");
    opt["positional_embedding"] = {{"model.decoder.embed_positions.weight"}};
    return opt;
  }
  if (lm.family == kGptNeoX)
    return names("gpt_neox.embed_in.weight", "gpt_neox.final_layer_norm", "embed_out");
  if (lm.family == kFalcon || lm.family == kBloom) {
    TensorNames falcon = names("transformer.word_embeddings.weight", "transformer.ln_f", "lm_head");
    falcon["layer_norm_1/layer_norm_scale"] = {{"transformer.word_embeddings_layernorm.weight"}};
    falcon["layer_norm_1/layer_norm_bias"] = {{"transformer.word_embeddings_layernorm.bias"}};
    return falcon;
  }
  return names("model.embed_tokens.weight", lm.family == kPhi ? "model.final_layernorm" : "model.norm",
               "lm_head");
}

/// Names behind transformer/block_007/ and behind transformer.h.7.
const TensorNames& gpt2_block() {
  static const TensorNames names = {{"layer_000/layer_norm/layer_norm_scale", {{"ln_1.weight"}}},
                                    {"layer_000/layer_norm/layer_norm_bias", {{"ln_1.bias"}}},
                                    {"layer_000/SelfAttention/q", {{"attn.c_attn.weight"}}},
                                    {"layer_000/SelfAttention/k", {{"attn.c_attn.weight"}}},
                                    {"layer_000/SelfAttention/v", {{"attn.c_attn.weight"}}},
                                    {"layer_000/SelfAttention/q_bias", {{"attn.c_attn.bias"}}},
                                    {"layer_000/SelfAttention/k_bias", {{"attn.c_attn.bias"}}},
                                    {"layer_000/SelfAttention/v_bias", {{"attn.c_attn.bias"}}},
                                    {"layer_000/SelfAttention/o", {{"attn.c_proj.weight"}}},
                                    {"layer_000/SelfAttention/o_bias", {{"attn.c_proj.bias"}}},
                                    {"layer_001/layer_norm/layer_norm_scale", {{"ln_2.weight"}}},
                                    {"layer_001/layer_norm/layer_norm_bias", {{"ln_2.bias"}}},
                                    {"layer_001/DenseReluDense/wi/kernel", {{"mlp.c_fc.weight"}}},
                                    {"layer_001/DenseReluDense/wi/bias", {{"mlp.c_fc.bias"}}},
                                    {"layer_001/DenseReluDense/wo/kernel", {{"mlp.c_proj.weight"}}},
                                    {"layer_001/DenseReluDense/wo/bias", {{"mlp.c_proj.bias"}}}};
  return names;
}

/// Names behind transformer/block_007/ and behind model.layers.7.
const TensorNames& llama_block() {
  static const TensorNames names = {
      {"layer_000/rms_norm/scale", {{"input_layernorm.weight"}}},
      {"layer_000/SelfAttention/q", {{"self_attn.q_proj.weight", true}}},
      {"layer_000/SelfAttention/q_bias", {{"self_attn.q_proj.bias"}}},
      {"layer_000/SelfAttention/q_norm/scale", {{"self_attn.q_norm.weight"}}},
      {"layer_000/SelfAttention/k", {{"self_attn.k_proj.weight", true}}},
      {"layer_000/SelfAttention/k_bias", {{"self_attn.k_proj.bias"}}},
      {"layer_000/SelfAttention/k_norm/scale", {{"self_attn.k_norm.weight"}}},
      {"layer_000/SelfAttention/v", {{"self_attn.v_proj.weight", true}}},
      {"layer_000/SelfAttention/v_bias", {{"self_attn.v_proj.bias"}}},
      {"layer_000/SelfAttention/o", {{"self_attn.o_proj.weight", true}}},
      {"layer_000/SelfAttention/o_bias", {{"self_attn.o_proj.bias"}}},
      {"layer_001/rms_norm/scale", {{"post_attention_layernorm.weight"}}},
      {"layer_001/DenseReluDense/wi_0/kernel", {{"mlp.gate_proj.weight", true}}},
      {"layer_001/DenseReluDense/wi_0/bias", {{"mlp.gate_proj.bias"}}},
      {"layer_001/DenseReluDense/wi_1/kernel", {{"mlp.up_proj.weight", true}}},
      {"layer_001/DenseReluDense/wi_1/bias", {{"mlp.up_proj.bias"}}},
      {"layer_001/DenseReluDense/wo/kernel", {{"mlp.down_proj.weight", true}}},
      {"layer_001/DenseReluDense/wo/bias", {{"mlp.down_proj.bias"}}}};
  return names;
}

/// The same for layers with layer_norm.
const TensorNames& stablelm_block() {
  static const TensorNames names = [] {
    TensorNames stablelm = llama_block();
    stablelm["layer_000/layer_norm/layer_norm_scale"] = {{"input_layernorm.weight"}};
    stablelm["layer_000/layer_norm/layer_norm_bias"] = {{"input_layernorm.bias"}};
    stablelm["layer_001/layer_norm/layer_norm_scale"] = {{"post_attention_layernorm.weight"}};
    stablelm["layer_001/layer_norm/layer_norm_bias"] = {{"post_attention_layernorm.bias"}};
    return stablelm;
  }();
  return names;
}

const TensorNames& phi_block() {
  static const TensorNames names = [] {
    TensorNames phi = stablelm_block();
    phi["layer_000/SelfAttention/o"] = {{"self_attn.dense.weight", true}};
    phi["layer_000/SelfAttention/o_bias"] = {{"self_attn.dense.bias"}};
    phi["layer_001/DenseReluDense/wi/kernel"] = {{"mlp.fc1.weight", true}};
    phi["layer_001/DenseReluDense/wi/bias"] = {{"mlp.fc1.bias"}};
    phi["layer_001/DenseReluDense/wo/kernel"] = {{"mlp.fc2.weight", true}};
    phi["layer_001/DenseReluDense/wo/bias"] = {{"mlp.fc2.bias"}};
    return phi;
  }();
  return names;
}

const TensorNames& starcoder2_block() {
  static const TensorNames names = [] {
    TensorNames starcoder2 = stablelm_block();
    starcoder2["layer_001/DenseReluDense/wi/kernel"] = {{"mlp.c_fc.weight", true}};
    starcoder2["layer_001/DenseReluDense/wi/bias"] = {{"mlp.c_fc.bias"}};
    starcoder2["layer_001/DenseReluDense/wo/kernel"] = {{"mlp.c_proj.weight", true}};
    starcoder2["layer_001/DenseReluDense/wo/bias"] = {{"mlp.c_proj.bias"}};
    return starcoder2;
  }();
  return names;
}

const TensorNames& nemotron_block() {
  static const TensorNames names = [] {
    TensorNames nemotron = stablelm_block();
    nemotron["layer_001/DenseReluDense/wi/kernel"] = {{"mlp.up_proj.weight", true}};
    nemotron["layer_001/DenseReluDense/wi/bias"] = {{"mlp.up_proj.bias"}};
    return nemotron;
  }();
  return names;
}

/// The same behind transformer.h.7.
const TensorNames& gptj_block() {
  static const TensorNames names = {{"layer_000/layer_norm/layer_norm_scale", {{"ln_1.weight"}}},
                                    {"layer_000/layer_norm/layer_norm_bias", {{"ln_1.bias"}}},
                                    {"layer_000/SelfAttention/q", {{"attn.q_proj.weight", true}}},
                                    {"layer_000/SelfAttention/k", {{"attn.k_proj.weight", true}}},
                                    {"layer_000/SelfAttention/v", {{"attn.v_proj.weight", true}}},
                                    {"layer_000/SelfAttention/o", {{"attn.out_proj.weight", true}}},
                                    {"layer_001/DenseReluDense/wi/kernel", {{"mlp.fc_in.weight", true}}},
                                    {"layer_001/DenseReluDense/wi/bias", {{"mlp.fc_in.bias"}}},
                                    {"layer_001/DenseReluDense/wo/kernel", {{"mlp.fc_out.weight", true}}},
                                    {"layer_001/DenseReluDense/wo/bias", {{"mlp.fc_out.bias"}}}};
  return names;
}

/// The same behind transformer.blocks.7.
const TensorNames& mpt_block() {
  static const TensorNames names = {{"layer_000/layer_norm/layer_norm_scale", {{"norm_1.weight"}}},
                                    {"layer_000/SelfAttention/q", {{"attn.Wqkv.weight", true}}},
                                    {"layer_000/SelfAttention/k", {{"attn.Wqkv.weight", true}}},
                                    {"layer_000/SelfAttention/v", {{"attn.Wqkv.weight", true}}},
                                    {"layer_000/SelfAttention/o", {{"attn.out_proj.weight", true}}},
                                    {"layer_001/layer_norm/layer_norm_scale", {{"norm_2.weight"}}},
                                    {"layer_001/DenseReluDense/wi/kernel", {{"ffn.up_proj.weight", true}}},
                                    {"layer_001/DenseReluDense/wo/kernel", {{"ffn.down_proj.weight", true}}}};
  return names;
}

/// The same behind model.decoder.layers.7.
const TensorNames& opt_block() {
  static const TensorNames names = [] {
    TensorNames opt = phi_block();
    for (const char* variable : {"layer_000/SelfAttention/o", "layer_000/SelfAttention/o_bias"})
      replace_all(opt[variable].name, "dense", "out_proj");
    for (const char* variable : {"layer_001/DenseReluDense/wi/", "layer_001/DenseReluDense/wo/"})
      for (const char* part : {"kernel", "bias"})
        replace_all(opt[std::string(variable) + part].name, "mlp.", "");
    for (const char* part : {"scale", "bias"}) {
      replace_all(opt[fmt::format("layer_000/layer_norm/layer_norm_{}", part)].name, "input_layernorm",
                  "self_attn_layer_norm");
      replace_all(opt[fmt::format("layer_001/layer_norm/layer_norm_{}", part)].name,
                  "post_attention_layernorm", "final_layer_norm");
    }
    return opt;
  }();
  return names;
}

const TensorNames& neox_block() {
  static const TensorNames names = [] {
    TensorNames neox = stablelm_block();
    for (const char* projection : {"q", "k", "v"}) {
      const std::string variable = std::string("layer_000/SelfAttention/") + projection;
      neox[variable] = {{"attention.query_key_value.weight", true}};
      neox[variable + "_bias"] = {{"attention.query_key_value.bias"}};
    }
    neox["layer_000/SelfAttention/o"] = {{"attention.dense.weight", true}};
    neox["layer_000/SelfAttention/o_bias"] = {{"attention.dense.bias"}};
    neox["layer_001/DenseReluDense/wi/kernel"] = {{"mlp.dense_h_to_4h.weight", true}};
    neox["layer_001/DenseReluDense/wi/bias"] = {{"mlp.dense_h_to_4h.bias"}};
    neox["layer_001/DenseReluDense/wo/kernel"] = {{"mlp.dense_4h_to_h.weight", true}};
    neox["layer_001/DenseReluDense/wo/bias"] = {{"mlp.dense_4h_to_h.bias"}};
    return neox;
  }();
  return names;
}

/// The same behind transformer.h.7.
const TensorNames& falcon_block(BlockForm form) {
  static const TensorNames with_one_norm = [] {
    TensorNames falcon = neox_block();
    for (auto& [variable, tensor] : falcon) {
      if (tensor.name.starts_with("attention.")) tensor.name.insert(0, "self_");
    }
    return falcon;
  }();
  static const TensorNames with_norms = [] {
    TensorNames falcon = with_one_norm;
    for (const char* part : {"scale", "bias"}) {
      const std::string variable = std::string("layer_norm/layer_norm_") + part;
      replace_all(falcon["layer_000/" + variable].name, "input_layernorm", "ln_attn");
      replace_all(falcon["layer_001/" + variable].name, "post_attention_layernorm", "ln_mlp");
    }
    return falcon;
  }();
  return form == BlockForm::kParallelNorms ? with_norms : with_one_norm;
}

const TensorNames& phi3_block() {
  static const TensorNames names = [] {
    TensorNames phi3 = llama_block();
    for (const char* projection : {"q", "k", "v"})
      phi3[std::string("layer_000/SelfAttention/") + projection] = {{"self_attn.qkv_proj.weight", true}};
    for (const char* input : {"wi_0", "wi_1"})
      phi3[fmt::format("layer_001/DenseReluDense/{}/kernel", input)] = {{"mlp.gate_up_proj.weight", true}};
    return phi3;
  }();
  return names;
}

/// The layers of a GLM-4 have a norm behind them, too.
const TensorNames& glm_block() {
  static const TensorNames names = [] {
    TensorNames glm = llama_block();
    for (const char* input : {"wi_0", "wi_1"})
      glm[fmt::format("layer_001/DenseReluDense/{}/kernel", input)] = {{"mlp.gate_up_proj.weight", true}};
    glm["layer_000/rms_norm_1/scale"] = {{"post_self_attn_layernorm.weight"}};
    glm["layer_001/rms_norm_1/scale"] = {{"post_mlp_layernorm.weight"}};
    return glm;
  }();
  return names;
}

const TensorNames& olmo2_block() {
  static const TensorNames names = [] {
    TensorNames olmo2 = llama_block();
    olmo2["layer_000/rms_norm/scale"] = {{"post_attention_layernorm.weight"}};
    olmo2["layer_001/rms_norm/scale"] = {{"post_feedforward_layernorm.weight"}};
    return olmo2;
  }();
  return names;
}

/// The same for a Gemma 2 or 3, whose layers have a norm behind them, too.
const TensorNames& gemma_block() {
  static const TensorNames names = [] {
    TensorNames gemma = llama_block();
    gemma["layer_000/rms_norm_1/scale"] = {{"post_attention_layernorm.weight"}};
    gemma["layer_001/rms_norm/scale"] = {{"pre_feedforward_layernorm.weight"}};
    gemma["layer_001/rms_norm_1/scale"] = {{"post_feedforward_layernorm.weight"}};
    return gemma;
  }();
  return names;
}

CausalLmTensor kernels_of_experts(const char* of_each, const char* of_all, int64_t part, int64_t parts) {
  CausalLmTensor tensor;
  tensor.experts = {of_each, of_all, part, parts};
  return tensor;
}

/// The layers of a model with experts; names as in llama_block().
const TensorNames& block_with_experts(bool is_mixtral) {
  constexpr const char *wi = "mlp.experts.gate_up_proj", *wo = "mlp.experts.down_proj";
  static const TensorNames mixtral = [] {
    TensorNames names = llama_block();
    names.insert({{"layer_001/MoE1D/top_k_gating/kernel", {{"block_sparse_moe.gate.weight", true}}},
                  {"layer_001/MoE1D/wi_0/kernel",
                   kernels_of_experts("block_sparse_moe.experts.*.w1.weight", wi, 0, 2)},
                  {"layer_001/MoE1D/wi_1/kernel",
                   kernels_of_experts("block_sparse_moe.experts.*.w3.weight", wi, 1, 2)},
                  {"layer_001/MoE1D/wo/kernel",
                   kernels_of_experts("block_sparse_moe.experts.*.w2.weight", wo, 0, 1)}});
    return names;
  }();
  static const TensorNames others = [] {
    TensorNames names = llama_block();
    names.insert(
        {{"layer_001/MoE1D/top_k_gating/kernel", {{"mlp.gate.weight", true}}},
         {"layer_001/MoE1D/wi_0/kernel", kernels_of_experts("mlp.experts.*.gate_proj.weight", wi, 0, 2)},
         {"layer_001/MoE1D/wi_1/kernel", kernels_of_experts("mlp.experts.*.up_proj.weight", wi, 1, 2)},
         {"layer_001/MoE1D/wo/kernel", kernels_of_experts("mlp.experts.*.down_proj.weight", wo, 0, 1)},
         {"layer_001/MoE1D/shared/wi_0/kernel", {{"mlp.shared_expert.gate_proj.weight", true}}},
         {"layer_001/MoE1D/shared/wi_1/kernel", {{"mlp.shared_expert.up_proj.weight", true}}},
         {"layer_001/MoE1D/shared/wo/kernel", {{"mlp.shared_expert.down_proj.weight", true}}},
         {"layer_001/MoE1D/shared/gate/kernel", {{"mlp.shared_expert_gate.weight", true}}}});
    return names;
  }();
  return is_mixtral ? mixtral : others;
}

const TensorNames& block_tensors(const CausalLmConfig& lm) {
  using enum CausalLmFamily;
  if (lm.family == kGpt2) return gpt2_block();
  if (lm.family == kGptJ) return gptj_block();
  if (lm.family == kMpt) return mpt_block();
  if (lm.family == kNemotron) return nemotron_block();
  if (lm.family == kGlm || lm.family == kGlm4) return glm_block();
  if (lm.family == kOpt) return opt_block();
  if (lm.family == kGptNeoX) return neox_block();
  if (lm.family == kFalcon || lm.family == kBloom) return falcon_block(lm.form);
  if (lm.family == kPhi) return phi_block();
  if (lm.family == kStarcoder2) return starcoder2_block();
  if (lm.family == kStableLm || lm.family == kCohere) return stablelm_block();
  if (lm.family == kOlmo2 || lm.family == kOlmo3) return olmo2_block();
  if (lm.experts) return block_with_experts(lm.family == kMixtral);
  if (lm.is_fused) return phi3_block();
  return lm.has_outer_norms() ? gemma_block() : llama_block();
}

/// Returns what a variable has of a tensor in which a GPT-2, an MPT, a GPT-NeoX, a BLOOM, a Falcon, a Phi-3 or a GLM has
/// several; nullopt: the tensor holds it alone. The heads of a GPT-NeoX each have their queries, keys and values together, and
/// so have those of a Falcon that share keys.
std::optional<TensorPart> fused_part(const std::string& variable, const CausalLmConfig& lm) {
  using enum CausalLmFamily;
  const bool is_by_head = lm.family == kGptNeoX || lm.family == kFalcon || lm.family == kBloom;
  const int64_t groups = is_by_head ? lm.num_memory_heads : 1, q = lm.num_heads * lm.head_size / groups,
                kv = lm.num_memory_heads * lm.head_size / groups, wi = lm.intermediate;
  const std::map<std::string, TensorPart> attention = {{"SelfAttention/q", {groups, 0, q, q + 2 * kv}},
                                                       {"SelfAttention/k", {groups, q, kv, q + 2 * kv}},
                                                       {"SelfAttention/v", {groups, q + kv, kv, q + 2 * kv}}};
  const std::map<std::string, TensorPart> units = {{"DenseReluDense/wi_0/kernel", {1, 0, wi, 2 * wi}},
                                                   {"DenseReluDense/wi_1/kernel", {1, wi, wi, 2 * wi}}};
  const bool has_attention = lm.family == kGpt2 || lm.family == kMpt || is_by_head || lm.is_fused,
             has_units = lm.is_fused || lm.family == kGlm || lm.family == kGlm4;
  const std::string suffix = "_bias", name = variable.ends_with(suffix)
                                                 ? variable.substr(0, variable.size() - suffix.size())
                                                 : variable;
  if (const auto found = attention.find(name); found != attention.end() && has_attention)
    return found->second;
  if (const auto found = units.find(name); found != units.end() && has_units) return found->second;
  return std::nullopt;
}

/// The place of a variable in a model: the number of its layer, that of attention or of what follows it as in "layer_001", and
/// the rest of its name.
struct PlaceInModel {
  int64_t layer = 0;
  std::string_view sublayer;
  std::string rest;
};

std::optional<PlaceInModel> place_of(const std::string& name, const CausalLmConfig& lm) {
  std::vector<std::string> parts = parts_of(name);
  if (parts.size() < 3) return std::nullopt;
  const std::optional<int> block = number_of(parts[0], "block"), layer = number_of(parts[1], "layer");
  const int64_t layers = lm.is_parallel() ? 1 : 2;
  if (!block || !layer || *layer >= layers * lm.pattern()) return std::nullopt;
  bool is_attention = lm.is_parallel() || *layer % 2 == 0;
  size_t skipped = 2;
  if (lm.is_parallel() && parts[2] == kParallel) {
    if (parts.size() < 5 || (parts[3] != kAttentionBlock && parts[3] != kFeedForwardBlock))
      return std::nullopt;
    is_attention = parts[3] == kAttentionBlock;
    skipped = 4;
  }
  if (parts[skipped] == kLocalAttention) parts[skipped] = kFullAttention;
  return PlaceInModel{
      *block * lm.pattern() + *layer / layers, is_attention ? "layer_000" : "layer_001",
      fmt::format("{}", fmt::join(parts.begin() + static_cast<ptrdiff_t>(skipped), parts.end(), "/"))};
}

/// What stands before the number of a layer.
const char* scope_of_layers(CausalLmFamily family) {
  using enum CausalLmFamily;
  if (family == kGpt2 || family == kGptJ || family == kFalcon || family == kBloom) return "transformer.h";
  if (family == kMpt) return "transformer.blocks";
  if (family == kOpt) return "model.decoder.layers";
  return family == kGptNeoX ? "gpt_neox.layers" : "model.layers";
}

/// Returns the rows of a file in which entries of a head that are turned together are neighbours; here the second ones of all
/// pairs stand behind the first ones. nullopt: the variable has no such rows.
std::optional<FileRows> rows_of_pairs(const std::string& variable, const CausalLmConfig& lm) {
  const bool is_query = variable.starts_with("SelfAttention/q"),
             is_key = variable.starts_with("SelfAttention/k");
  if (!lm.has_pairs_together || (!is_query && !is_key)) return std::nullopt;
  const int64_t heads = is_query ? lm.num_heads : lm.num_memory_heads,
                turned = lm.rotary_size.value_or(lm.head_size), pairs = turned / 2;
  FileRows rows{.of_each = {}, .count = heads * lm.head_size};
  for (int64_t head = 0; head < heads; ++head) {
    const auto add = [&](int64_t entry) {
      rows.of_each.push_back(static_cast<int32_t>(head * lm.head_size + entry));
    };
    for (const int64_t second : {0, 1})
      for (int64_t pair = 0; pair < pairs; ++pair) add(2 * pair + second);
    for (int64_t entry = turned; entry < lm.head_size; ++entry) add(entry);
  }
  return rows;
}

/// Returns the rows of the positions of a file, of which an OPT never reads the first two. nullopt: it has no others.
std::optional<FileRows> rows_of_positions(const CausalLmConfig& lm) {
  if (lm.family != CausalLmFamily::kOpt) return std::nullopt;
  constexpr int32_t unread = 2;
  FileRows rows{.of_each = std::vector<int32_t>(static_cast<size_t>(lm.max_positions)),
                .count = lm.max_positions + unread};
  std::iota(rows.of_each.begin(), rows.of_each.end(), unread);
  return rows;
}

/// Returns the tensor of a variable of a block; nullopt: there is none.
std::optional<CausalLmTensor> block_tensor(const std::string& name, const CausalLmConfig& lm) {
  const std::optional<PlaceInModel> place = place_of(name, lm);
  if (!place) return std::nullopt;
  const TensorNames& inner = block_tensors(lm);
  const auto found = inner.find(fmt::format("{}/{}", place->sublayer, place->rest));
  if (found == inner.end()) return std::nullopt;
  const std::string scope = fmt::format("{}.{}.", scope_of_layers(lm.family), place->layer);
  CausalLmTensor tensor = found->second;
  tensor.name = scope + tensor.name;
  tensor.part = fused_part(place->rest, lm);
  tensor.rows = rows_of_pairs(place->rest, lm);
  if (lm.has_scaled_queries && (place->rest == "SelfAttention/q" || place->rest == "SelfAttention/q_bias"))
    tensor.factor = std::sqrt(static_cast<double>(lm.scaling_size.value_or(lm.head_size)));
  if (tensor.experts) {
    tensor.experts->of_each = scope + tensor.experts->of_each;
    tensor.experts->of_all = scope + tensor.experts->of_all;
  }
  return tensor;
}

}  // namespace

std::optional<CausalLmTensor> causal_lm_tensor(const std::string& variable, const CausalLmConfig& lm) {
  if (!variable.starts_with(kLmScope)) return std::nullopt;
  const std::string name = variable.substr(kLmScope.size());
  std::optional<CausalLmTensor> tensor;
  const TensorNames outer = outer_tensors(lm);
  if (const auto found = outer.find(name); found != outer.end()) {
    tensor = found->second;
    if (name == "positional_embedding") tensor->rows = rows_of_positions(lm);
  } else {
    tensor = block_tensor(name, lm);
  }
  if (tensor && lm.is_gemma()) tensor->is_less_one = name.ends_with("/scale");
  if (tensor && lm.family == CausalLmFamily::kNemotron)
    tensor->is_less_one = name.ends_with("/layer_norm_scale");
  return tensor;
}

}  // namespace mtf
