#include "trainer/programs/convert/causal_lm_tensors.h"

#include <fmt/format.h>

#include <map>
#include <span>
#include <vector>

namespace mtf {
namespace {

using TensorNames = std::map<std::string, CausalLmTensor>;

/// The tensors that do not depend on the block.
const TensorNames& outer_tensors(bool is_gpt2) {
  static const CausalLmTensor logits{{std::string(kLmHead), true}, {}, true};
  static const TensorNames gpt2 = {{"embedding", {{"transformer.wte.weight"}, {}, true}},
                                   {"positional_embedding", {{"transformer.wpe.weight"}}},
                                   {"layer_norm/layer_norm_scale", {{"transformer.ln_f.weight"}}},
                                   {"layer_norm/layer_norm_bias", {{"transformer.ln_f.bias"}}},
                                   {"logits/kernel", logits}};
  static const TensorNames llama = {{"embedding", {{"model.embed_tokens.weight"}, {}, true}},
                                    {"rms_norm/scale", {{"model.norm.weight"}}},
                                    {"logits/kernel", logits}};
  return is_gpt2 ? gpt2 : llama;
}

/// Names behind transformer/block_007/ and behind transformer.h.7.
const TensorNames& gpt2_block() {
  static const TensorNames names = {{"layer_000/layer_norm/layer_norm_scale", {{"ln_1.weight"}}},
                                    {"layer_000/layer_norm/layer_norm_bias", {{"ln_1.bias"}}},
                                    {"layer_000/SelfAttention/q", {{"attn.c_attn.weight"}, 0}},
                                    {"layer_000/SelfAttention/k", {{"attn.c_attn.weight"}, 1}},
                                    {"layer_000/SelfAttention/v", {{"attn.c_attn.weight"}, 2}},
                                    {"layer_000/SelfAttention/q_bias", {{"attn.c_attn.bias"}, 0}},
                                    {"layer_000/SelfAttention/k_bias", {{"attn.c_attn.bias"}, 1}},
                                    {"layer_000/SelfAttention/v_bias", {{"attn.c_attn.bias"}, 2}},
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
  if (lm.is_gpt2()) return gpt2_block();
  if (lm.experts) return block_with_experts(lm.family == CausalLmFamily::kMixtral);
  return lm.has_outer_norms() ? gemma_block() : llama_block();
}

/// Returns the tensor of a variable of a block; nullopt: there is none.
std::optional<CausalLmTensor> block_tensor(const std::string& name, const CausalLmConfig& lm) {
  std::vector<std::string> parts = parts_of(name);
  if (parts.size() < 3) return std::nullopt;
  const std::optional<int> block = number_of(parts[0], "block"), layer = number_of(parts[1], "layer");
  if (!block || !layer || *layer >= 2 * lm.pattern()) return std::nullopt;
  if (parts[2] == kLocalAttention) parts[2] = kFullAttention;
  const std::span<const std::string> rest = std::span(parts).subspan(2);
  const TensorNames& inner = block_tensors(lm);
  const auto found = inner.find(fmt::format("layer_{:03}/{}", *layer % 2, fmt::join(rest, "/")));
  if (found == inner.end()) return std::nullopt;
  const std::string scope = fmt::format("{}.{}.", lm.is_gpt2() ? "transformer.h" : "model.layers",
                                        *block * lm.pattern() + *layer / 2);
  CausalLmTensor tensor = found->second;
  tensor.name = scope + tensor.name;
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
  const TensorNames& outer = outer_tensors(lm.is_gpt2());
  if (const auto found = outer.find(name); found != outer.end()) {
    tensor = found->second;
  } else {
    tensor = block_tensor(name, lm);
  }
  if (tensor && lm.is_gemma()) tensor->is_less_one = name.ends_with("/scale");
  return tensor;
}

}  // namespace mtf
