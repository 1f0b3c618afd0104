// Models that no class of transformers has are refused with what differs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/trainer/causal_lm_models.h"
#include "tests/trainer/hugging_face_directory.h"
#include "trainer/programs/convert/causal_lm_config.h"
#include "trainer/programs/convert/config_text.h"

namespace mtf::testing {
namespace {

using ::testing::HasSubstr;

/// The message for a model in whose configuration `to` stands in the place of `from`.
std::string refused(CausalLmFamily family, const std::string& from, const std::string& to) {
  std::string text = yaml(small_lm(family));
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  return message([&] { causal_lm_of(ConfigText(text, "config.yaml").load()); });
}

TEST(CausalLmFamily, OtherModelsAreRefusedWithTheDifference) {
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
  EXPECT_THAT(refused(kQwen3, "call_layer, residual", "call_layer, rms_norm, residual"),
              HasSubstr("it has norms around its layers as a GLM-4 does, and has qk_norm"));
  EXPECT_THAT(refused(kGemma2, "call_layer, rms_norm, residual", "call_layer, residual"),
              HasSubstr("local attention without norms behind the layers"));
  EXPECT_THAT(refused(kGemma, "[gelu, linear]", "[gelu_erf, linear]"),
              HasSubstr("which a Gemma 1 cannot say"));
  EXPECT_THAT(refused(kGemma3, "bias: false, dropout", "soft_cap: 30, bias: false, dropout"),
              HasSubstr("has other options than the first of these layers"));
  EXPECT_THAT(refused(kGemma2, "rotary_base: 10000", "rotary_base: 500"),
              HasSubstr("LocalSelfAttention has other rotary positions than SelfAttention"));
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
              HasSubstr("SelfAttention has other options than the first"));
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

TEST(CausalLmFamily, OtherModelsWithLayerNormAndRotaryPositionsAreRefused) {
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
  EXPECT_THAT(refused(kQwen3, "rotary_base: 10000", "rotary_base: 10000, rotary_size: 4"),
              HasSubstr("rotary positions of a part of a head"));
  EXPECT_THAT(refused(kLlama, "[rms_norm, call_layer", "[call_layer"), HasSubstr("no norms stand around"));
  EXPECT_THAT(refused(kGranite, "bias: false, dropout", "bias: qkv, dropout"),
              HasSubstr("a Qwen2ForCausalLM, and layers that multiply"));
  EXPECT_THAT(refused(kGranite, "call_layer, scale: 0.22", "scale: 0.22, call_layer"),
              HasSubstr("`sublayers.per_layer` is [rms_norm, scale, call_layer, residual]"));
  EXPECT_THAT(refused(kGranite, "scale: 0.22", "scale: -1"), HasSubstr("it multiplies by -1"));
  EXPECT_THAT(refused(kOlmo2, "qk_norm: all_heads", "qk_norm: true"), HasSubstr("no qk_norm of all heads"));
}

TEST(CausalLmFamily, ModelsBesideOnesOfNewerFamiliesAreRefused) {
  using enum CausalLmFamily;
  EXPECT_THAT(
      refused(kSmolLm3, "bias: false, dropout", "bias: qkv, dropout"),
      HasSubstr("some of its layers have no rotary positions, as in a SmolLM3, and it has `bias: qkv`"));
  EXPECT_THAT(
      refused(kQwen3, "[SelfAttention, ", "[SelfAttention: {rotary: false}, DenseReluDense, SelfAttention, "),
      HasSubstr("as in a SmolLM3, and it has qk_norm"));
  EXPECT_THAT(refused(kOpt, "bias: true, dropout", "bias: false, dropout"),
              HasSubstr("no biases in SelfAttention"));
  EXPECT_THAT(refused(kOpt, "epsilon: 1e-05", "epsilon: 1e-05, bias: false"),
              HasSubstr("the other layers of an OPTForCausalLM, and layer_norm without biases"));
  EXPECT_THAT(refused(kCohere, "initial: []", "initial: [scale: 2]"), HasSubstr("layers that multiply"));
  EXPECT_THAT(refused(kCohere, "bias: false, dropout", "bias: qkv, dropout"), HasSubstr("`bias: qkv`"));
  EXPECT_THAT(refused(kFalcon, "bias: false, dropout", "bias: true, dropout"),
              HasSubstr("biases only in some of its layers"));
  EXPECT_THAT(refused(kBloom, "initial: [layer_norm]", "initial: []"),
              HasSubstr("no norm before its first layer"));
  EXPECT_THAT(refused(kBloom, "hidden_size: 96", "hidden_size: 90"), HasSubstr("90 units for vectors of 24"));
  EXPECT_THAT(refused(kBloom, "activation: gelu", "activation: relu"), HasSubstr("the activation relu"));
  EXPECT_THAT(refused(kGpt2, "bias: true, dropout", "alibi: true, bias: true, dropout"),
              HasSubstr("a GPT2LMHeadModel, and alibi"));
  EXPECT_THAT(refused(kGpt2, "initial: [", "initial: [layer_norm, "),
              HasSubstr("a norm before its first layer"));
  EXPECT_THAT(refused(kStarcoder2, "bias: true, dropout", "bias: qkv, dropout"),
              HasSubstr("as a StarCoder2 has, and biases only in some of its layers"));
}

TEST(CausalLmFamily, OtherExpertsAreRefusedWithTheDifference) {
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

}  // namespace
}  // namespace mtf::testing
