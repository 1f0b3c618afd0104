// Says which class of transformers computes what the layers of a configuration do.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "engine/base/with_article.h"
#include "trainer/programs/convert/causal_lm_family_parts.h"
#include "trainer/programs/convert/causal_lm_layers.h"
#include "trainer/programs/convert/causal_lm_models.h"

namespace mtf {
namespace {

void require(bool holds, const Mark& mark, const std::string& what, const std::string& right) {
  if (!holds) not_causal_lm(mark, what, right);
}

/// Finds the family of a model from its layers.
class CausalLmFamilyFinder {
 public:
  explicit CausalLmFamilyFinder(CausalLmLayers& layers) : layers_(layers) {}

  void find() {
    if (layers_.has_layer_norm || !layers_.has_scaled_embedding) check_no_gemma();
    if (!layers_.has_layer_norm) {
      check_rotary_model();
    } else if (layers_.attention.rotary && !layers_.has_learned_positions) {
      check_rotary_model_with_layer_norm();
    } else if (layers_.attention.alibi && !layers_.has_learned_positions) {
      layers_.has_norm_biases ? check_bloom() : settle_mpt(layers_);
    } else {
      check_gpt2();
    }
    const CausalLmModel& model = model_of(lm_.family);
    lm_.has_pairs_together = model.has_pairs_together;
    const auto has = [&](bool holds, const Mark& mark, const std::string& what, const std::string& right) {
      require(holds, mark,
              fmt::format("it has the other layers of {}, and {}", with_article(model.architecture), what),
              right);
    };
    const bool may_have_logit_bias =
        lm_.family == CausalLmFamily::kPhi || lm_.family == CausalLmFamily::kGptJ;
    has(!lm_.logit_bias || may_have_logit_bias, layers_.of_model, "logits with a bias", "logit_bias: false");
    has(!lm_.scales || may_have_scales(), layers_.of_sublayers, "layers that multiply",
        "no `scale` in `sublayers`");
    has(layers_.has_norm_biases || !model.has_norm_biases, layers_.of_model, "layer_norm without biases",
        "layer_defaults: {layer_norm: {bias: true}}");
    has(!layers_.has_embedding_norm || model.has_embedding_norm, layers_.of_sublayers,
        "a norm before its first layer", "no norm in `sublayers.initial`");
    has(!layers_.attention.alibi || model.has_alibi, layers_.of_attention, "alibi", "alibi: false");
    has(!lm_.has_layers_without_rotary() || lm_.family == CausalLmFamily::kSmolLm3, layers_.of_attention,
        "layers without rotary positions", "rotary: true for all");
    has(!lm_.rotary_size || model.rotary_share > 0, layers_.of_attention,
        "rotary positions of a part of a head", "rotary_size: null");
  }

 private:
  /// True if the family multiplies at the places where the model does.
  bool may_have_scales() const {
    if (lm_.family == CausalLmFamily::kGranite) return true;
    return lm_.family == CausalLmFamily::kCohere && lm_.scales->embedding == 1 && lm_.scales->residual == 1;
  }

  /// Refuses what only a Gemma has.
  void check_no_gemma() const {
    require(!layers_.has_scaled_embedding, layers_.of_model,
            "its embeddings are scaled as only those of a Gemma, which has rms_norm",
            "scale_like_classifier: false");
    require(!lm_.has_outer_norms() || !layers_.has_layer_norm, layers_.of_sublayers,
            "norms stand behind its layers, and its embeddings are not scaled as those of a Gemma",
            "embedding: {type: vocab, scale_like_classifier: true}");
    require(!lm_.logit_soft_cap, layers_.of_model,
            "its logits have a soft cap, and no norms stand behind its layers", "no `logit_soft_cap`");
    require(!lm_.attention_soft_cap, layers_.of_attention,
            "SelfAttention has a soft_cap, and no norms stand behind its layers", "null");
    require(!lm_.scaling_size || lm_.scales, layers_.of_attention,
            "SelfAttention has a scaling_size, and no norms stand behind its layers", "null");
  }

  void check_gemma() {
    const auto gemma = [](bool holds, const Mark& mark, const std::string& what, const std::string& right) {
      require(holds, mark, "its embeddings are scaled as those of a Gemma, and it has " + what, right);
    };
    gemma(layers_.attention.bias != AttentionBias::kInputs, layers_.of_attention, "`bias: qkv`",
          "bias: false, or true");
    gemma(!lm_.experts, layers_.of_feed_forward, "experts", kFeedForward);
    gemma(!layers_.feed_forward.bias, layers_.of_feed_forward, "biases of DenseReluDense", "bias: false");
    const bool has_qk_norm = layers_.attention.qk_norm != QkNorm::kNone;
    gemma(layers_.attention.qk_norm != QkNorm::kAllHeads, layers_.of_attention, "qk_norm of all heads",
          "qk_norm: true");
    if (!lm_.has_outer_norms()) {
      lm_.family = CausalLmFamily::kGemma;
      const std::string right =
          "sublayers.per_layer: [rms_norm, call_layer, rms_norm, residual], or none of it";
      gemma(!lm_.window, layers_.of_attention, "local attention without norms behind the layers", right);
      gemma(!has_qk_norm, layers_.of_attention, "qk_norm without norms behind the layers", right);
      gemma(!lm_.logit_soft_cap && !lm_.attention_soft_cap, layers_.of_model,
            "soft caps without norms behind the layers", right);
      gemma(!lm_.scaling_size, layers_.of_attention, "a scaling_size without norms behind the layers", right);
      gemma(lm_.activation != Activation::kGeluErf, layers_.of_feed_forward,
            "the activation gelu_erf, which a Gemma 1 cannot say", "gelu");
      return;
    }
    lm_.family = has_qk_norm ? CausalLmFamily::kGemma3 : CausalLmFamily::kGemma2;
    gemma(!lm_.has_odd_heads(), layers_.of_attention,
          fmt::format("{} heads, which do not divide {}", lm_.num_heads, lm_.hidden),
          "`num_heads` that divide `d_model`");
    gemma(!has_qk_norm || !lm_.attention_soft_cap, layers_.of_attention,
          "a soft_cap of SelfAttention beside qk_norm", "null");
  }

  /// Sets the rotary positions of local attention, which may be others in a Gemma 3 and an OLMo-3.
  void settle_local_rotary() {
    const CausalLmModel& model = model_of(lm_.family);
    const std::optional<ConvertedRotary>&full = layers_.full_rotary, &local = layers_.local_rotary;
    if (!model.has_local_rotary) {
      require(!full || !local || config::dump(*local) == config::dump(*full), layers_.of_attention,
              "LocalSelfAttention has other rotary positions than SelfAttention, as only a Gemma 3 and an "
              "OLMo-3 have",
              "the same");
      return;
    }
    require(!local || !local->rotary_scaling, layers_.of_attention,
            fmt::format("LocalSelfAttention scales its rotary positions, which {} does not",
                        with_article(model.title)),
            "rotary_scaling: null");
    require(!local || !local->rotary_size, layers_.of_attention,
            fmt::format("LocalSelfAttention turns a part of a head, which {} does not",
                        with_article(model.title)),
            "rotary_size: null");
    lm_.local_rotary_base = local ? local->rotary_base : RotaryOptions().rotary_base;
    if (full) return;
    lm_.rotary_base = RotaryOptions().rotary_base;
    lm_.rotary_scaling.reset();
  }

  void check_gpt2() {
    const auto gpt2 = [](bool holds, const Mark& mark, const std::string& what, const std::string& right) {
      require(holds, mark, "it has layer_norm as a GPT-2 has, and " + what, right);
    };
    lm_.family = CausalLmFamily::kGpt2;
    gpt2(lm_.form == BlockForm::kNormsBefore, layers_.of_model, "parallel layers, or norms behind them",
         "[layer_norm, call_layer, residual]");
    gpt2(!lm_.window, layers_.of_attention, "local attention", "SelfAttention");
    gpt2(layers_.has_learned_positions, layers_.of_model, "no learned positions", "positions: learned");
    gpt2(!layers_.attention.rotary, layers_.of_attention, "rotary positions", "rotary: false, or rms_norm");
    if (is_opt()) lm_.family = CausalLmFamily::kOpt;
    gpt2(layers_.attention.qk_norm == QkNorm::kNone, layers_.of_attention, "qk_norm",
         "qk_norm: false, or rms_norm");
    gpt2(layers_.attention.bias == AttentionBias::kAll || lm_.family == CausalLmFamily::kOpt,
         layers_.of_attention, "no biases in SelfAttention", "bias: true");
    gpt2(lm_.num_memory_heads == lm_.num_heads, layers_.of_attention, "grouped heads", "num_memory_heads: 0");
    gpt2(lm_.num_heads * lm_.head_size == lm_.hidden, layers_.of_attention,
         fmt::format("{} heads of {} entries for vectors of {}", lm_.num_heads, lm_.head_size, lm_.hidden),
         "`num_heads` times `key_value_size` equal to `d_model`");
    gpt2(!lm_.experts, layers_.of_feed_forward, "experts", "DenseReluDense, or rms_norm");
    gpt2(layers_.feed_forward.bias || lm_.family == CausalLmFamily::kOpt, layers_.of_feed_forward,
         "no biases in DenseReluDense", "bias: true");
    gpt2(layers_.feed_forward.activation.size() == 1, layers_.of_feed_forward, "gated units",
         "one `activation`, such as gelu");
  }

  /// True if the model is an OPT: one with relu, or one without biases, which no GPT-2 is. It has an epsilon and no dropout of
  /// embeddings.
  bool is_opt() const {
    if (lm_.epsilon != model_of(CausalLmFamily::kOpt).epsilon || lm_.embedding_dropout != 0) return false;
    const bool has_unit_biases = layers_.feed_forward.bias;
    if (layers_.attention.bias == AttentionBias::kNone) return !has_unit_biases;
    return layers_.attention.bias == AttentionBias::kAll && has_unit_biases &&
           lm_.activation == Activation::kRelu;
  }

  void check_bloom() {
    const auto bloom = [](bool holds, const Mark& mark, const std::string& what, const std::string& right) {
      require(holds, mark, "it has layer_norm and alibi as a BLOOM has, and " + what, right);
    };
    lm_.family = CausalLmFamily::kBloom;
    bloom(lm_.form == BlockForm::kNormsBefore, layers_.of_model, "parallel layers, or norms behind them",
          "[layer_norm, call_layer, residual]");
    bloom(layers_.has_embedding_norm, layers_.of_sublayers, "no norm before its first layer",
          "sublayers.initial: [layer_norm]");
    bloom(lm_.embedding_dropout == 0, layers_.of_sublayers, "dropout before its first layer",
          "no dropout in `sublayers.initial`");
    bloom(!lm_.window, layers_.of_attention, "local attention", "SelfAttention");
    bloom(layers_.attention.qk_norm == QkNorm::kNone, layers_.of_attention, "qk_norm", "qk_norm: false");
    bloom(lm_.attention_bias == AttentionBias::kAll, layers_.of_attention, "no biases in SelfAttention",
          "bias: true");
    bloom(lm_.num_memory_heads == lm_.num_heads, layers_.of_attention, "grouped heads",
          "num_memory_heads: 0");
    bloom(lm_.num_heads * lm_.head_size == lm_.hidden, layers_.of_attention,
          fmt::format("{} heads of {} entries for vectors of {}", lm_.num_heads, lm_.head_size, lm_.hidden),
          "`num_heads` times `key_value_size` equal to `d_model`");
    bloom(!lm_.experts, layers_.of_feed_forward, "experts", kFeedForward);
    bloom(lm_.feed_forward_bias, layers_.of_feed_forward, "no biases in DenseReluDense", "bias: true");
    bloom(layers_.feed_forward.activation == std::vector{Activation::kGelu}, layers_.of_feed_forward,
          "the activation " + activation_text(layers_.feed_forward.activation), "gelu");
    bloom(lm_.intermediate == 4 * lm_.hidden, layers_.of_feed_forward,
          fmt::format("{} units for vectors of {}", lm_.intermediate, lm_.hidden), "4 times as many");
  }

  static void layer_norm(bool holds, const Mark& mark, const std::string& what, const std::string& right) {
    require(holds, mark, "it has layer_norm and rotary positions, and " + what, right);
  }

  void check_rotary_model_with_layer_norm() {
    layer_norm(layers_.attention.qk_norm == QkNorm::kNone, layers_.of_attention, "qk_norm", "qk_norm: false");
    layer_norm(!lm_.experts, layers_.of_feed_forward, "experts", kFeedForward);
    layer_norm(lm_.form != BlockForm::kNormsBehind, layers_.of_sublayers, "norms behind its layers",
               "[layer_norm, call_layer, residual]");
    layer_norm(
        lm_.num_heads * lm_.head_size == lm_.hidden, layers_.of_attention,
        fmt::format("{} heads of {} entries for vectors of {}", lm_.num_heads, lm_.head_size, lm_.hidden),
        "`num_heads` times `key_value_size` equal to `d_model`");
    const std::vector<Activation>& activation = layers_.feed_forward.activation;
    const bool has_gates = activation.size() == 2 && activation[1] == Activation::kLinear;
    layer_norm(has_gates || activation.size() == 1, layers_.of_feed_forward,
               "the activation " + activation_text(activation), "gelu_erf, or [swish, linear]");
    if (activation == std::vector{Activation::kSquaredRelu}) {
      settle_nemotron(layers_);
    } else if (has_gates && !layers_.has_norm_biases) {
      check_cohere();
    } else if (has_gates) {
      check_stablelm();
    } else if (is_falcon()) {
      check_falcon();
    } else if (is_starcoder2()) {
      check_starcoder2();
    } else if (lm_.form == BlockForm::kParallel) {
      lm_.attention_bias == AttentionBias::kNone ? settle_gptj(layers_) : check_phi();
    } else {
      check_neox();
    }
    layer_norm(!lm_.window || lm_.family == CausalLmFamily::kStarcoder2, layers_.of_attention,
               "local attention", "SelfAttention");
  }

  void check_cohere() {
    const auto cohere = [](bool holds, const Mark& mark, const std::string& what, const std::string& right) {
      layer_norm(holds, mark, "norms without biases as a Cohere has, and " + what, right);
    };
    lm_.family = CausalLmFamily::kCohere;
    cohere(lm_.form == BlockForm::kParallel, layers_.of_model, "no parallel layers with one norm",
           "block: [parallel: {layers: [...], scale: none}]");
    cohere(lm_.attention_bias != AttentionBias::kInputs, layers_.of_attention, "`bias: qkv`",
           "bias: true, or false");
    cohere(!lm_.feed_forward_bias, layers_.of_feed_forward, "biases of DenseReluDense", "bias: false");
    cohere(lm_.dropout == 0 && lm_.embedding_dropout == 0, layers_.of_model, "dropout outside attention",
           "no dropout in `sublayers` and `blocks`");
    cohere(!lm_.scaling_size, layers_.of_attention, "a scaling_size", "null");
  }

  /// True if the model has parallel layers without what a Phi or a GPT-NeoX has, or is one with no biases and one head of keys
  /// and values or as many as of queries. There is no dropout but that of attention.
  bool is_falcon() const {
    if (lm_.logit_bias || lm_.rotary_size || lm_.embedding_dropout != 0 || lm_.dropout != 0 || lm_.window)
      return false;
    const bool has_groups = lm_.num_memory_heads != lm_.num_heads, has_biases = lm_.feed_forward_bias;
    if (lm_.form == BlockForm::kParallel) return true;
    if (lm_.form == BlockForm::kParallelNorms) return has_groups || !has_biases;
    return !has_biases && (!has_groups || lm_.num_memory_heads == 1) && lm_.attention_dropout == 0;
  }

  /// True if layers follow one another as those of no GPT-NeoX do: with a window, with grouped heads or without biases.
  bool is_starcoder2() const {
    return !lm_.is_parallel() &&
           (lm_.window || lm_.num_memory_heads != lm_.num_heads || !lm_.feed_forward_bias);
  }

  void check_starcoder2() {
    const auto starcoder2 = [](bool holds, const Mark& mark, const std::string& what,
                               const std::string& right) {
      layer_norm(holds, mark, "units without gates as a StarCoder2 has, and " + what, right);
    };
    lm_.family = CausalLmFamily::kStarcoder2;
    starcoder2(lm_.attention_bias == (lm_.feed_forward_bias ? AttentionBias::kAll : AttentionBias::kNone),
               layers_.of_attention, "biases only in some of its layers", "the same `bias` for all");
    starcoder2(!layers_.has_mixed_windows(), layers_.of_attention, "local attention in some of its layers",
               "LocalSelfAttention in all, or in none");
    starcoder2(!lm_.rotary_size, layers_.of_attention, "rotary positions of a part of a head",
               "rotary_size: null");
  }

  void check_falcon() {
    const auto falcon = [](bool holds, const Mark& mark, const std::string& what, const std::string& right) {
      layer_norm(holds, mark, "units without gates as a Falcon has, and " + what, right);
    };
    lm_.family = CausalLmFamily::kFalcon;
    const bool has_biases = lm_.feed_forward_bias;
    falcon(lm_.attention_bias == (has_biases ? AttentionBias::kAll : AttentionBias::kNone),
           layers_.of_attention, "biases only in some of its layers", "the same `bias` for all");
  }

  void check_stablelm() {
    const auto stablelm = [](bool holds, const Mark& mark, const std::string& what,
                             const std::string& right) {
      layer_norm(holds, mark, "gated units as a StableLM has, and " + what, right);
    };
    lm_.family = CausalLmFamily::kStableLm;
    stablelm(lm_.form != BlockForm::kParallelNorms, layers_.of_model,
             "a norm for each of its parallel layers", "one norm, in `sublayers.per_layer`");
    stablelm(lm_.attention_bias != AttentionBias::kAll, layers_.of_attention, "a bias of the output",
             "bias: qkv, or false");
    stablelm(!lm_.feed_forward_bias, layers_.of_feed_forward, "biases of DenseReluDense", "bias: false");
    stablelm(lm_.dropout == 0 && lm_.embedding_dropout == 0, layers_.of_model, "dropout outside attention",
             "no dropout in `sublayers` and `blocks`");
  }

  void check_phi() {
    const auto phi = [](bool holds, const Mark& mark, const std::string& what, const std::string& right) {
      layer_norm(holds, mark, "one norm for parallel layers as a Phi has, and " + what, right);
    };
    lm_.family = CausalLmFamily::kPhi;
    phi(lm_.attention_bias == AttentionBias::kAll, layers_.of_attention, "no biases of all projections",
        "bias: true");
    phi(lm_.feed_forward_bias, layers_.of_feed_forward, "no biases in DenseReluDense", "bias: true");
    phi(lm_.logit_bias, layers_.of_model, "logits without a bias", "logit_bias: true");
  }

  void check_neox() {
    const auto neox = [](bool holds, const Mark& mark, const std::string& what, const std::string& right) {
      layer_norm(holds, mark, "units without gates as a GPT-NeoX has, and " + what, right);
    };
    lm_.family = CausalLmFamily::kGptNeoX;
    neox(lm_.num_memory_heads == lm_.num_heads, layers_.of_attention, "grouped heads", "num_memory_heads: 0");
    neox(lm_.attention_bias != AttentionBias::kInputs, layers_.of_attention, "`bias: qkv`",
         "bias: true, or false");
    neox(lm_.feed_forward_bias, layers_.of_feed_forward, "no biases in DenseReluDense", "bias: true");
    neox(lm_.dropout == lm_.embedding_dropout, layers_.of_model,
         fmt::format("a dropout of {} before its layers and of {} behind them", lm_.embedding_dropout,
                     lm_.dropout),
         "the same rate");
  }

  static void llama(bool holds, const Mark& mark, const std::string& what, const std::string& right) {
    require(holds, mark, "it has rms_norm as a Llama has, and " + what, right);
  }

  void check_rotary_model() {
    llama(!layers_.has_learned_positions, layers_.of_model, "learned positions",
          "positions: none, or layer_norm");
    llama(!lm_.is_parallel(), layers_.of_model, "parallel layers", "[SelfAttention, DenseReluDense]");
    llama(layers_.attention.rotary, layers_.of_attention, "no rotary positions", "rotary: true");
    llama(layers_.feed_forward.activation.size() == 2 &&
              layers_.feed_forward.activation[1] == Activation::kLinear,
          layers_.of_feed_forward, "no gated units", "activation: [swish, linear]");
    llama(layers_.attention.qk_norm == QkNorm::kNone || lm_.epsilon == layers_.attention.qk_norm_epsilon,
          layers_.of_attention,
          fmt::format("qk_norm, whose epsilon is {}, beside an epsilon of {}",
                      layers_.attention.qk_norm_epsilon, lm_.epsilon),
          "the same one");
    if (lm_.form == BlockForm::kNormsBehind) {
      check_olmo2();
    } else if (layers_.has_scaled_embedding) {
      check_gemma();
    } else if (lm_.has_outer_norms()) {
      settle_glm(layers_);
    } else if (lm_.experts) {
      check_model_with_experts();
    } else if (lm_.has_layers_without_rotary()) {
      check_smollm3();
    } else {
      check_llama();
    }
    settle_local_rotary();
  }

  void check_olmo2() {
    const auto olmo2 = [](bool holds, const Mark& mark, const std::string& what, const std::string& right) {
      require(holds, mark, "norms stand only behind its layers, as in an OLMo-2, and it has " + what, right);
    };
    lm_.family = lm_.window ? CausalLmFamily::kOlmo3 : CausalLmFamily::kOlmo2;
    olmo2(!layers_.has_scaled_embedding, layers_.of_model, "scaled embeddings",
          "scale_like_classifier: false");
    olmo2(layers_.attention.qk_norm == QkNorm::kAllHeads, layers_.of_attention, "no qk_norm of all heads",
          "qk_norm: all_heads");
    olmo2(lm_.attention_bias != AttentionBias::kInputs, layers_.of_attention, "`bias: qkv`",
          "bias: false, or true");
    olmo2(!lm_.experts, layers_.of_feed_forward, "experts", kFeedForward);
    olmo2(!layers_.feed_forward.bias, layers_.of_feed_forward, "biases of DenseReluDense", "bias: false");
  }

  void check_smollm3() {
    const auto smollm3 = [](bool holds, const Mark& mark, const std::string& what, const std::string& right) {
      require(holds, mark, "some of its layers have no rotary positions, as in a SmolLM3, and it has " + what,
              right);
    };
    lm_.family = CausalLmFamily::kSmolLm3;
    smollm3(layers_.attention.bias != AttentionBias::kInputs, layers_.of_attention, "`bias: qkv`",
            "bias: false, or true");
    smollm3(layers_.attention.qk_norm == QkNorm::kNone, layers_.of_attention, "qk_norm", "qk_norm: false");
    smollm3(!lm_.has_odd_heads(), layers_.of_attention,
            fmt::format("{} heads, which do not divide {}", lm_.num_heads, lm_.hidden),
            "`num_heads` that divide `d_model`");
  }

  void check_llama() {
    const bool has_one_size = lm_.num_heads * lm_.head_size == lm_.hidden,
               has_qk_norm = layers_.attention.qk_norm != QkNorm::kNone,
               is_plain =
                   lm_.attention_bias == AttentionBias::kNone && !layers_.feed_forward.bias && !lm_.scales;
    if (lm_.rotary_size && !has_qk_norm && (!is_plain || !has_one_size)) return settle_glm(layers_);
    if (!has_qk_norm && (lm_.rotary_size || (lm_.has_longrope() && is_plain && has_one_size)))
      return settle_phi3(layers_);
    const bool is_qwen2 = layers_.attention.bias == AttentionBias::kInputs;
    if (lm_.scales && !is_qwen2 && !lm_.window && layers_.attention.qk_norm == QkNorm::kNone) {
      lm_.family = CausalLmFamily::kGranite;
      return;
    }
    if (layers_.attention.qk_norm != QkNorm::kNone) {
      lm_.family = CausalLmFamily::kQwen3;
      llama(!is_qwen2, layers_.of_attention, "qk_norm with `bias: qkv`", "bias: false, or true");
      llama(layers_.attention.qk_norm == QkNorm::kEachHead, layers_.of_attention,
            "qk_norm of all heads without experts", "qk_norm: true");
    } else if (is_qwen2) {
      lm_.family = CausalLmFamily::kQwen2;
    } else if (lm_.window) {
      lm_.family = layers_.has_mixed_windows() ? CausalLmFamily::kMinistral : CausalLmFamily::kMistral;
      llama(layers_.attention.bias == AttentionBias::kNone, layers_.of_attention,
            "biases beside local attention", "bias: false");
    } else if (lm_.has_odd_heads() && layers_.attention.bias == AttentionBias::kNone &&
               !layers_.feed_forward.bias) {
      lm_.family = CausalLmFamily::kMistral;
    }
    llama(lm_.family == CausalLmFamily::kLlama || !layers_.feed_forward.bias, layers_.of_feed_forward,
          "biases of DenseReluDense beside qk_norm, `bias: qkv` or local attention", "bias: false");
  }

  void check_model_with_experts() {
    const auto has = [](bool holds, const Mark& mark, const std::string& what, const std::string& right) {
      require(holds, mark, "it has experts, and " + what, right);
    };
    const bool has_shared = lm_.experts->shared_hidden.has_value();
    if (layers_.attention.qk_norm != QkNorm::kNone) {
      has(!has_shared, layers_.of_feed_forward, "shared ones beside qk_norm",
          "shared_experts: 0, or qk_norm: false");
      has(layers_.attention.bias != AttentionBias::kInputs, layers_.of_attention, "qk_norm with `bias: qkv`",
          "bias: false, or true");
    }
    if (!has_shared)
      has(!layers_.has_mixed_windows(), layers_.of_attention,
          "local attention in some of its layers without shared ones",
          "LocalSelfAttention in all, or in none");
    if (layers_.attention.qk_norm == QkNorm::kEachHead) {
      lm_.family = CausalLmFamily::kQwen3Moe;
    } else if (layers_.attention.qk_norm == QkNorm::kAllHeads) {
      lm_.family = CausalLmFamily::kOlmoe;
      has(lm_.num_heads * lm_.head_size == lm_.hidden, layers_.of_attention,
          fmt::format("qk_norm of all {} heads of {} entries for vectors of {}", lm_.num_heads, lm_.head_size,
                      lm_.hidden),
          "`num_heads` times `key_value_size` equal to `d_model`");
      has(!lm_.window, layers_.of_attention, "local attention beside qk_norm of all heads", "SelfAttention");
    } else if (has_shared) {
      lm_.family = CausalLmFamily::kQwen2Moe;
      has(lm_.attention_bias != AttentionBias::kAll, layers_.of_attention, "biases of all projections",
          "bias: qkv, or false");
    } else {
      lm_.family = CausalLmFamily::kMixtral;
      const std::string alone = "without shared ones and without qk_norm";
      has(lm_.attention_bias == AttentionBias::kNone, layers_.of_attention,
          "biases in SelfAttention " + alone, "bias: false");
      has(lm_.experts->normalized, layers_.of_feed_forward, "weights that do not add up to 1 " + alone,
          "normalize: true");
    }
  }

  CausalLmLayers& layers_;
  CausalLmConfig& lm_ = layers_.lm;
};

}  // namespace

void settle_family(CausalLmLayers& layers) { CausalLmFamilyFinder(layers).find(); }

}  // namespace mtf
