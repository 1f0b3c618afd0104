#include "trainer/programs/convert/causal_lm_family_parts.h"

#include <fmt/format.h>

#include <string>

#include "trainer/programs/convert/causal_lm_models.h"

namespace mtf {
namespace {

/// What a class demands of layers; `trait` says why they are taken for those of the class.
class ClassOfLayers {
 public:
  ClassOfLayers(CausalLmLayers& layers, CausalLmFamily family, std::string trait)
      : layers_(layers), trait_(std::move(trait)) {
    layers.lm.family = family;
  }

  void require(bool holds, const Mark& mark, const std::string& what, const std::string& right) const {
    if (!holds)
      not_causal_lm(mark, fmt::format("{} as a {} does, and has {}", trait_, layers_.lm.model().title, what),
                    right);
  }

  void require_no_biases_of_units() const {
    require(!layers_.feed_forward.bias, layers_.of_feed_forward, "biases of DenseReluDense", "bias: false");
  }
  void require_no_scales() const {
    require(!layers_.lm.scales, layers_.of_sublayers, "layers that multiply", "no `scale` in `sublayers`");
  }
  void require_no_dropout_outside_attention() const {
    require(layers_.lm.dropout == 0 && layers_.lm.embedding_dropout == 0, layers_.of_model,
            "dropout outside attention", "no dropout in `sublayers` and `blocks`");
  }
  void require_full_attention() const {
    require(!layers_.lm.window, layers_.of_attention, "local attention", "SelfAttention");
  }
  void require_one_layer_after_the_other() const {
    require(layers_.lm.form == BlockForm::kNormsBefore, layers_.of_model,
            "parallel layers, or norms behind them", "[layer_norm, call_layer, residual]");
  }
  void require_own_keys_of_each_head() const {
    require(layers_.lm.num_memory_heads == layers_.lm.num_heads, layers_.of_attention, "grouped heads",
            "num_memory_heads: 0");
  }
  void require_heads_that_make_a_vector() const {
    const CausalLmConfig& lm = layers_.lm;
    require(lm.num_heads * lm.head_size == lm.hidden, layers_.of_attention,
            fmt::format("{} heads of {} entries for vectors of {}", lm.num_heads, lm.head_size, lm.hidden),
            "`num_heads` times `key_value_size` equal to `d_model`");
  }
  void require_no_qk_norm() const {
    require(layers_.attention.qk_norm == QkNorm::kNone, layers_.of_attention, "qk_norm", "qk_norm: false");
  }

 private:
  CausalLmLayers& layers_;
  std::string trait_;
};

}  // namespace

void settle_mpt(CausalLmLayers& layers) {
  const CausalLmConfig& lm = layers.lm;
  const ClassOfLayers mpt(layers, CausalLmFamily::kMpt, "it has alibi and norms without biases");
  mpt.require_one_layer_after_the_other();
  mpt.require_no_dropout_outside_attention();
  mpt.require_full_attention();
  mpt.require_no_qk_norm();
  mpt.require_own_keys_of_each_head();
  mpt.require_heads_that_make_a_vector();
  mpt.require(lm.attention_dropout == 0, layers.of_attention, "dropout", "dropout: 0");
  mpt.require(lm.attention_bias == AttentionBias::kNone, layers.of_attention, "biases in SelfAttention",
              "bias: false");
  mpt.require(!lm.experts, layers.of_feed_forward, "experts", kFeedForward);
  mpt.require_no_biases_of_units();
  mpt.require(layers.feed_forward.activation == std::vector{Activation::kGeluErf}, layers.of_feed_forward,
              "the activation " + activation_text(layers.feed_forward.activation), "gelu_erf");
  mpt.require(lm.intermediate == 4 * lm.hidden, layers.of_feed_forward,
              fmt::format("{} units for vectors of {}", lm.intermediate, lm.hidden), "4 times as many");
}

void settle_nemotron(CausalLmLayers& layers) {
  const ClassOfLayers nemotron(layers, CausalLmFamily::kNemotron, "it has layer_norm and squared_relu");
  nemotron.require_one_layer_after_the_other();
  nemotron.require_no_dropout_outside_attention();
  nemotron.require_full_attention();
  nemotron.require(layers.lm.attention_bias != AttentionBias::kInputs, layers.of_attention, "`bias: qkv`",
                   "bias: true, or false");
}

void settle_gptj(CausalLmLayers& layers) {
  const CausalLmConfig& lm = layers.lm;
  const ClassOfLayers gptj(layers, CausalLmFamily::kGptJ,
                           "it has parallel layers without biases of attention");
  gptj.require_full_attention();
  gptj.require_own_keys_of_each_head();
  gptj.require(lm.feed_forward_bias, layers.of_feed_forward, "no biases in DenseReluDense", "bias: true");
  gptj.require(lm.logit_bias, layers.of_model, "logits without a bias", "logit_bias: true");
  gptj.require(lm.rotary_base == RotaryOptions().rotary_base && !lm.rotary_scaling, layers.of_attention,
               "another `rotary_base`, or `rotary_scaling`", "rotary_base: 10000, rotary_scaling: null");
}

void settle_phi3(CausalLmLayers& layers) {
  const CausalLmConfig& lm = layers.lm;
  const ClassOfLayers phi3(layers, CausalLmFamily::kPhi3, "it turns a part of a head or has longrope");
  layers.lm.is_fused = true;
  phi3.require_heads_that_make_a_vector();
  phi3.require(!layers.has_mixed_windows(), layers.of_attention, "local attention in some of its layers",
               "LocalSelfAttention in all, or in none");
  phi3.require(!lm.rotary_scaling || lm.has_longrope(), layers.of_attention, "another `rotary_scaling`",
               "longrope, or null");
}

void settle_glm(CausalLmLayers& layers) {
  const bool is_glm4 = layers.lm.has_outer_norms();
  const ClassOfLayers glm(layers, is_glm4 ? CausalLmFamily::kGlm4 : CausalLmFamily::kGlm,
                          is_glm4 ? "it has norms around its layers" : "it turns a part of a head");
  glm.require_no_qk_norm();
  glm.require_full_attention();
  glm.require(layers.lm.attention_bias != AttentionBias::kAll, layers.of_attention, "`bias: true`",
              "bias: qkv, or false");
  glm.require(!layers.lm.experts, layers.of_feed_forward, "experts", kFeedForward);
  glm.require_no_biases_of_units();
  glm.require_no_scales();
}

}  // namespace mtf
