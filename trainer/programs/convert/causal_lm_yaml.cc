// Converts a decoder-only language model to a configuration of this program and back.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "engine/base/printable.h"
#include "engine/config/load.h"
#include "layers/embeddings/vocab.h"
#include "layers/experts/options.h"
#include "layers/relative_bias.h"
#include "models/transformer.h"
#include "trainer/programs/convert/causal_lm_config.h"
#include "trainer/programs/convert/config_text.h"
#include "trainer/programs/convert/layer_options.h"

namespace mtf {
namespace {

using config::Node;

[[noreturn]] void not_causal_lm(const Mark& mark, const std::string& what, const std::string& hint) {
  throw Error(ErrorKind::kConfig, mark,
              "the model is no GPT-2, Llama, Mistral, Qwen, Gemma, Mixtral or OLMoE: " + what, hint);
}

constexpr const char *kFeedForward = "DenseReluDense", *kExperts = "MoE1D";

/// The balance loss of transformers, over that of a layer here. It is made of means over all layers, and loads add up to the
/// number of experts of a token; here each layer has a loss, and loads add up to 1.
double balance_ratio(const CausalLmConfig& lm) {
  return static_cast<double>(lm.experts->per_token) / static_cast<double>(lm.num_layers);
}

/// Leaves out digits in which a product and its factors differ by rounding.
std::string coefficient_text(double value) { return fmt::format("{:.12g}", value); }

/// All options of the layers of attention.
struct CausalLmAttention : HeadOptions, RotaryOptions {
  RelativeAttention relative_attention_type = RelativeAttention::kNone;
  int64_t radius = 128;
};
void describe_both(config::Visitor& visit, CausalLmAttention& options) {
  describe(visit, static_cast<HeadOptions&>(options));
  describe_convolution(visit, options);
  describe_rotary(visit, options);
}
void describe(config::Visitor& visit, CausalLmAttention& options) {
  describe_both(visit, options);
  visit("relative_attention_type", options.relative_attention_type, "");
}

struct LocalCausalLmAttention : CausalLmAttention {};
void describe(config::Visitor& visit, LocalCausalLmAttention& options) {
  describe_both(visit, options);
  visit("radius", options.radius, "");
}

/// The rotary positions of a layer.
struct ConvertedRotary : RotaryOptions {};
void describe(config::Visitor& visit, ConvertedRotary& options) { describe_rotary(visit, options); }

/// The language model of a configuration, from which its hyperparameters are read.
class CausalLmReader {
 public:
  CausalLmReader(const LanguageModelOptions& model, const Mark& mark) : model_(model), mark_(mark) {}

  CausalLmConfig read() {
    check_model();
    lm_.hidden = model_.d_model;
    lm_.max_positions = model_.max_length;
    lm_.tied = model_.shared_embedding_and_softmax;
    lm_.predicts_padding = model_.predict_padding;
    lm_.logit_soft_cap = model_.logit_soft_cap;
    read_embedding();
    read_sublayers();
    const std::vector<LayerEntry> block = block_layers();
    const CausalLmAttention attention = read_attention(block);
    const ConvertedFeedForward feed_forward = read_feed_forward(block);
    read_heads(attention);
    lm_.intermediate = feed_forward.hidden_size;
    lm_.activation = feed_forward.activation[0];
    lm_.feed_forward_bias = feed_forward.bias;
    require(!activation_name(lm_.activation).empty(), block[1].mark,
            fmt::format("{} has the activation {}", block[1].name, activation_text(feed_forward.activation)),
            "gelu_erf, gelu, relu, swish or tanh");
    if (norm_ == "layer_norm" || !has_scaled_embedding_) check_no_gemma(block[0].mark);
    if (norm_ == "layer_norm") {
      check_gpt2(attention, block[0].mark, feed_forward, block[1].mark);
    } else {
      check_rotary_model(attention, block[0].mark, feed_forward, block[1].mark);
    }
    return lm_;
  }

 private:
  static void require(bool holds, const Mark& mark, const std::string& what, const std::string& right) {
    if (!holds) not_causal_lm(mark, what, right);
  }

  template <class Options>
  Options layer(const LayerEntry& entry) const {
    return parse_layer<Options>(entry, &model_.layer_defaults, not_causal_lm);
  }

  static void expect_names(const std::vector<LayerEntry>& list, const std::vector<std::string>& wanted,
                           const Mark& mark, const std::string& what) {
    expect_layers(list, wanted, mark, what, not_causal_lm);
  }

  void check_model() const {
    require(!model_.delimited && !model_.input_full_attention, mark_, "it reads inputs as a whole",
            "`type: lm` with `input_full_attention: false`");
    require(model_.name == LanguageModelOptions().name, mark_, "its variables have another scope",
            "no `name`");
    require(model_.around.block_scope, mark_, "`block_scope` is false", "block_scope: true");
    require(!model_.logit_bias, mark_, "its logits have a bias", "logit_bias: false");
    require(!are_sinusoids(model_.positions), mark_, "its positions are sinusoids",
            "positions: learned, or none with `rotary: true` of SelfAttention");
  }

  void read_embedding() {
    const auto* vocab = model_.embedding.get_if<VocabEmbedding>();
    require(vocab && (vocab->scale_like_classifier || !(lm_.tied && vocab->scale_logits)), mark_,
            "it has another embedding, or divides logits", "embedding: {type: vocab, scale_logits: false}");
    has_scaled_embedding_ = vocab->scale_like_classifier;
    const auto* normal = vocab->initializer ? std::get_if<NormalInitializer>(&*vocab->initializer) : nullptr;
    // config.json has a deviation for all weights, and cannot say 1 or more.
    if (normal && normal->stddev < 1) lm_.initializer_range = normal->stddev;
  }

  std::vector<LayerEntry> left_of(const Node& list, double& rate) const {
    return without_dropout(list, &model_.layer_defaults, not_causal_lm, rate);
  }

  void add_norm(const LayerEntry& entry, bool is_first) {
    const double epsilon = layer<ConvertedNorm>(entry).epsilon;
    require(is_first || (entry.name == norm_ && epsilon == lm_.epsilon), entry.mark,
            "its norms are of several kinds", "one norm with one `epsilon` in `layer_defaults`");
    norm_ = entry.name;
    lm_.epsilon = epsilon;
  }

  void read_sublayers() {
    const SublayerLists& given = model_.around.sublayers;
    const auto list = [](const Node& node, const std::vector<std::string>& usual) {
      if (!node.is_null()) return node;
      std::vector<Node> names;
      for (const std::string& name : usual) names.push_back(Node::scalar(name));
      return Node::list(std::move(names));
    };
    lm_.embedding_dropout = lm_.dropout = model_.around.dropout;
    double rate = 0;
    if (!given.initial.is_null())
      expect_names(left_of(given.initial, lm_.embedding_dropout), {}, given.initial.mark(),
                   "`sublayers.initial` is");
    const std::vector<LayerEntry> around =
        left_of(list(given.per_layer, {"rms_norm", "call_layer", "residual"}), rate);
    if (!given.per_layer.is_null()) lm_.dropout = rate;
    const std::string norm = around.empty() ? "" : around[0].name;
    const bool known = norm == "layer_norm" || norm == "rms_norm";
    std::vector<std::string> wanted = {known ? norm : "rms_norm", "call_layer", "residual"};
    has_outer_norms_ = around.size() == 4 && known && around[2].name == norm;
    if (has_outer_norms_) wanted.insert(wanted.begin() + 2, norm);
    expect_names(around, wanted, given.per_layer.mark(), "`sublayers.per_layer` is");
    add_norm(around[0], true);
    if (has_outer_norms_) add_norm(around[2], false);
    const std::vector<LayerEntry> last = left_of(list(given.final, {"rms_norm"}), rate);
    expect_names(last, {norm}, given.final.mark(), "`sublayers.final` is");
    add_norm(last[0], false);
  }

  /// Returns the layers of the block: attention and feed-forward by turns, or attention and experts.
  std::vector<LayerEntry> block_layers() const {
    std::vector<LayerEntry> block = layer_entries(model_.block);
    std::vector<std::string> wanted;
    for (size_t i = 0; i < std::max<size_t>(block.size(), 1); i += 2) {
      const bool is_local = i < block.size() && block[i].name == kLocalAttention;
      wanted.emplace_back(is_local ? kLocalAttention : kFullAttention);
      wanted.emplace_back(block.size() > 1 && block[1].name == kExperts ? kExperts : kFeedForward);
    }
    expect_names(block, wanted, model_.block.mark(), "its block is");
    return block;
  }

  /// Refuses a layer with other options than those of the first one. Low-rank updates are merged before.
  template <class Options>
  static void require_same(Options options, Options first, const LayerEntry& entry) {
    if constexpr (requires { options.lora; }) {
      options.lora.reset();
      first.lora.reset();
    }
    require(config::dump(options) == config::dump(first), entry.mark,
            fmt::format("{} has other options than the first of these layers", entry.name),
            "the same options for all layers, as in `layer_defaults`");
  }

  /// Sets the pattern of local layers, and returns what all layers of attention have.
  CausalLmAttention read_attention(const std::vector<LayerEntry>& block) {
    std::optional<CausalLmAttention> first;
    lm_.local.clear();
    for (size_t i = 0; i < block.size(); i += 2) {
      const bool is_local = block[i].name == kLocalAttention;
      CausalLmAttention options = is_local ? CausalLmAttention(layer<LocalCausalLmAttention>(block[i]))
                                           : layer<CausalLmAttention>(block[i]);
      check_attention(options, block[i]);
      if (!first) first = options;
      std::optional<ConvertedRotary>& rotary = is_local ? local_rotary_ : full_rotary_;
      if (!rotary) rotary = ConvertedRotary{options};
      require_same(ConvertedRotary{options}, *rotary, block[i]);
      static_cast<RotaryOptions&>(options) = *first;
      require_same(options, *first, block[i]);
      lm_.local.push_back(is_local);
      if (!is_local) continue;
      require(!lm_.window || lm_.window == options.radius, block[i].mark,
              "its windows are of several lengths", "one `radius` in `layer_defaults`");
      lm_.window = options.radius;
    }
    lm_.num_layers = model_.num_layers * lm_.pattern();
    if (full_rotary_) static_cast<RotaryOptions&>(*first) = *full_rotary_;
    return *first;
  }

  static void check_attention(const CausalLmAttention& options, const LayerEntry& entry) {
    const auto has_not = [&](bool holds, const std::string& what, const std::string& right) {
      require(holds, entry.mark, fmt::format("{} has {}", entry.name, what), right);
    };
    has_not(!options.shared_kv, "shared_kv", "false");
    has_not(!options.extra_logit, "an extra_logit", "null");
    has_not(options.prefix_length == 0, "a prefix", "prefix_length: 0");
    has_not(options.convolution_width == 0, "convolutions", "convolution_width: 0");
    has_not(options.relative_attention_type == RelativeAttention::kNone, "relative positions",
            "relative_attention_type: none");
    // Norms of queries undo a scale before them; the layer then divides behind them.
    if (options.qk_norm != QkNorm::kNone) {
      has_not(options.fold_scaling_into_initializer, "qk_norm without fold_scaling_into_initializer", "true");
    } else {
      has_not(!options.fold_scaling_into_initializer, "fold_scaling_into_initializer", "false");
    }
  }

  void read_heads(const CausalLmAttention& options) {
    lm_.num_heads = options.num_heads;
    lm_.num_memory_heads = options.num_memory_heads == 0 ? options.num_heads : options.num_memory_heads;
    lm_.head_size = options.key_value_size;
    lm_.attention_bias = options.bias;
    lm_.attention_dropout = options.dropout;
    lm_.rotary_base = options.rotary_base;
    lm_.rotary_scaling = options.rotary_scaling;
    lm_.attention_soft_cap = options.soft_cap;
    if (options.scaling_size != options.key_value_size) lm_.scaling_size = options.scaling_size;
  }

  /// Returns the options that all layers of a block behind attention have.
  template <class Options>
  Options layer_behind_attention(const std::vector<LayerEntry>& block) const {
    const auto first = layer<Options>(block[1]);
    for (size_t i = 3; i < block.size(); i += 2) require_same(layer<Options>(block[i]), first, block[i]);
    return first;
  }

  ConvertedFeedForward read_feed_forward(const std::vector<LayerEntry>& block) {
    return block[1].name == kExperts ? read_experts(layer_behind_attention<MoeOptions>(block), block[1].mark)
                                     : layer_behind_attention<ConvertedFeedForward>(block);
  }

  /// Returns what experts have in common with a feed-forward layer.
  ConvertedFeedForward read_experts(const MoeOptions& options, const Mark& mark) {
    const auto has = [&](bool holds, const std::string& what, const std::string& right) {
      require(holds, mark, fmt::format("{} has {}", kExperts, what), right);
    };
    has(options.is_top_k(), "another gating", "gating: top_k");
    has(options.is_dropless(), "a capacity", "dispatch: dropless");
    has(options.score == Score::kSoftmax, "sigmoids as scores", "score: softmax");
    has(!options.selection_bias, "a selection_bias", "false");
    has(options.expert_groups == 1, "expert_groups", "1");
    has(options.scale == 1, "a scale of its weights", "scale: 1");
    has(options.weight_on == WeightOn::kOutput, "weights on inputs", "weight_on: output");
    has(options.shared_experts == 0 || options.shared_gate, "shared experts without a gate",
        "shared_gate: true");
    lm_.experts = {.count = options.num_experts,
                   .per_token = options.experts_per_token,
                   .normalized = options.normalize,
                   .shared_hidden = {}};
    if (options.shared_experts > 0)
      lm_.experts->shared_hidden =
          options.shared_hidden_size.value_or(options.shared_experts * options.hidden_size);
    lm_.experts->balance_coef = std::stod(coefficient_text(options.balance.coef / balance_ratio(lm_)));
    ConvertedFeedForward common;
    common.hidden_size = options.hidden_size;
    common.activation = options.activation;
    return common;
  }

  /// True if the attention of some layers is local, and of others not.
  bool has_mixed_windows() const { return local_rotary_ && full_rotary_; }

  /// Refuses what only a Gemma has.
  void check_no_gemma(const Mark& of_attention) const {
    require(!has_scaled_embedding_, mark_,
            "its embeddings are scaled as only those of a Gemma, which has rms_norm",
            "scale_like_classifier: false");
    require(!has_outer_norms_, model_.around.sublayers.per_layer.mark(),
            "norms stand behind its layers, and its embeddings are not scaled as those of a Gemma",
            "embedding: {type: vocab, scale_like_classifier: true}");
    require(!lm_.logit_soft_cap, mark_, "its logits have a soft cap, and no norms stand behind its layers",
            "no `logit_soft_cap`");
    require(!lm_.attention_soft_cap, of_attention,
            "SelfAttention has a soft_cap, and no norms stand behind its layers", "null");
    require(!lm_.scaling_size, of_attention,
            "SelfAttention has a scaling_size, and no norms stand behind its layers", "null");
  }

  void check_gemma(const CausalLmAttention& attention, const Mark& of_attention,
                   const ConvertedFeedForward& feed_forward, const Mark& of_feed_forward) {
    const auto gemma = [](bool holds, const Mark& mark, const std::string& what, const std::string& right) {
      require(holds, mark, "its embeddings are scaled as those of a Gemma, and it has " + what, right);
    };
    gemma(attention.bias != AttentionBias::kInputs, of_attention, "`bias: qkv`", "bias: false, or true");
    gemma(!lm_.experts, of_feed_forward, "experts", kFeedForward);
    gemma(!feed_forward.bias, of_feed_forward, "biases of DenseReluDense", "bias: false");
    const bool has_qk_norm = attention.qk_norm != QkNorm::kNone;
    gemma(attention.qk_norm != QkNorm::kAllHeads, of_attention, "qk_norm of all heads", "qk_norm: true");
    if (!has_outer_norms_) {
      lm_.family = CausalLmFamily::kGemma;
      const std::string right =
          "sublayers.per_layer: [rms_norm, call_layer, rms_norm, residual], or none of it";
      gemma(!lm_.window, of_attention, "local attention without norms behind the layers", right);
      gemma(!has_qk_norm, of_attention, "qk_norm without norms behind the layers", right);
      gemma(!lm_.logit_soft_cap && !lm_.attention_soft_cap, mark_,
            "soft caps without norms behind the layers", right);
      gemma(!lm_.scaling_size, of_attention, "a scaling_size without norms behind the layers", right);
      gemma(lm_.activation != Activation::kGeluErf, of_feed_forward,
            "the activation gelu_erf, which a Gemma 1 cannot say", "gelu");
      return;
    }
    lm_.family = has_qk_norm ? CausalLmFamily::kGemma3 : CausalLmFamily::kGemma2;
    gemma(!lm_.has_odd_heads(), of_attention,
          fmt::format("{} heads, which do not divide {}", lm_.num_heads, lm_.hidden),
          "`num_heads` that divide `d_model`");
    gemma(!has_qk_norm || !lm_.attention_soft_cap, of_attention, "a soft_cap of SelfAttention beside qk_norm",
          "null");
  }

  /// Sets the rotary positions of local attention, which may be others in a Gemma 3.
  void settle_local_rotary(const Mark& of_attention) {
    if (lm_.family != CausalLmFamily::kGemma3) {
      require(!has_mixed_windows() || config::dump(*local_rotary_) == config::dump(*full_rotary_),
              of_attention,
              "LocalSelfAttention has other rotary positions than SelfAttention, as only a Gemma 3 has",
              "the same");
      return;
    }
    require(!local_rotary_ || !local_rotary_->rotary_scaling, of_attention,
            "LocalSelfAttention scales its rotary positions, which a Gemma 3 does not",
            "rotary_scaling: null");
    lm_.local_rotary_base = local_rotary_ ? local_rotary_->rotary_base : RotaryOptions().rotary_base;
    if (full_rotary_) return;
    lm_.rotary_base = RotaryOptions().rotary_base;
    lm_.rotary_scaling.reset();
  }

  void check_gpt2(const CausalLmAttention& attention, const Mark& of_attention,
                  const ConvertedFeedForward& feed_forward, const Mark& of_feed_forward) {
    const auto gpt2 = [](bool holds, const Mark& mark, const std::string& what, const std::string& right) {
      require(holds, mark, "it has layer_norm as a GPT-2 has, and " + what, right);
    };
    lm_.family = CausalLmFamily::kGpt2;
    gpt2(!lm_.window, of_attention, "local attention", "SelfAttention");
    gpt2(model_.positions == Positions::kLearned, mark_, "no learned positions", "positions: learned");
    gpt2(!attention.rotary, of_attention, "rotary positions", "rotary: false, or rms_norm");
    gpt2(attention.qk_norm == QkNorm::kNone, of_attention, "qk_norm", "qk_norm: false, or rms_norm");
    gpt2(attention.bias == AttentionBias::kAll, of_attention, "no biases in SelfAttention", "bias: true");
    gpt2(lm_.num_memory_heads == lm_.num_heads, of_attention, "grouped heads", "num_memory_heads: 0");
    gpt2(lm_.num_heads * lm_.head_size == lm_.hidden, of_attention,
         fmt::format("{} heads of {} entries for vectors of {}", lm_.num_heads, lm_.head_size, lm_.hidden),
         "`num_heads` times `key_value_size` equal to `d_model`");
    gpt2(!lm_.experts, of_feed_forward, "experts", "DenseReluDense, or rms_norm");
    gpt2(feed_forward.bias, of_feed_forward, "no biases in DenseReluDense", "bias: true");
    gpt2(feed_forward.activation.size() == 1, of_feed_forward, "gated units",
         "one `activation`, such as gelu");
  }

  static void llama(bool holds, const Mark& mark, const std::string& what, const std::string& right) {
    require(holds, mark, "it has rms_norm as a Llama has, and " + what, right);
  }

  void check_rotary_model(const CausalLmAttention& attention, const Mark& of_attention,
                          const ConvertedFeedForward& feed_forward, const Mark& of_feed_forward) {
    llama(model_.positions == Positions::kNone, mark_, "learned positions", "positions: none, or layer_norm");
    llama(attention.rotary, of_attention, "no rotary positions", "rotary: true");
    llama(feed_forward.activation.size() == 2 && feed_forward.activation[1] == Activation::kLinear,
          of_feed_forward, "no gated units", "activation: [swish, linear]");
    llama(attention.qk_norm == QkNorm::kNone || lm_.epsilon == attention.qk_norm_epsilon, of_attention,
          fmt::format("qk_norm, whose epsilon is {}, beside an epsilon of {}", attention.qk_norm_epsilon,
                      lm_.epsilon),
          "the same one");
    if (has_scaled_embedding_) {
      check_gemma(attention, of_attention, feed_forward, of_feed_forward);
    } else if (lm_.experts) {
      check_model_with_experts(attention, of_attention, of_feed_forward);
    } else {
      check_llama(attention, of_attention, feed_forward, of_feed_forward);
    }
    settle_local_rotary(of_attention);
  }

  void check_llama(const CausalLmAttention& attention, const Mark& of_attention,
                   const ConvertedFeedForward& feed_forward, const Mark& of_feed_forward) {
    const bool is_qwen2 = attention.bias == AttentionBias::kInputs;
    if (attention.qk_norm != QkNorm::kNone) {
      lm_.family = CausalLmFamily::kQwen3;
      llama(!is_qwen2, of_attention, "qk_norm with `bias: qkv`", "bias: false, or true");
      llama(attention.qk_norm == QkNorm::kEachHead, of_attention, "qk_norm of all heads without experts",
            "qk_norm: true");
    } else if (is_qwen2) {
      lm_.family = CausalLmFamily::kQwen2;
    } else if (lm_.window) {
      lm_.family = CausalLmFamily::kMistral;
      llama(!has_mixed_windows(), of_attention, "local attention in some of its layers, as only a Qwen has",
            "LocalSelfAttention in all, or in none");
      llama(attention.bias == AttentionBias::kNone, of_attention, "biases beside local attention",
            "bias: false");
    } else if (lm_.has_odd_heads() && attention.bias == AttentionBias::kNone && !feed_forward.bias) {
      lm_.family = CausalLmFamily::kMistral;
    }
    llama(lm_.family == CausalLmFamily::kLlama || !feed_forward.bias, of_feed_forward,
          "biases of DenseReluDense beside qk_norm, `bias: qkv` or local attention", "bias: false");
  }

  void check_model_with_experts(const CausalLmAttention& attention, const Mark& of_attention,
                                const Mark& of_experts) {
    const auto has = [](bool holds, const Mark& mark, const std::string& what, const std::string& right) {
      require(holds, mark, "it has experts, and " + what, right);
    };
    const bool has_shared = lm_.experts->shared_hidden.has_value();
    if (attention.qk_norm != QkNorm::kNone) {
      has(!has_shared, of_experts, "shared ones beside qk_norm", "shared_experts: 0, or qk_norm: false");
      has(attention.bias != AttentionBias::kInputs, of_attention, "qk_norm with `bias: qkv`",
          "bias: false, or true");
    }
    if (!has_shared)
      has(!has_mixed_windows(), of_attention, "local attention in some of its layers without shared ones",
          "LocalSelfAttention in all, or in none");
    if (attention.qk_norm == QkNorm::kEachHead) {
      lm_.family = CausalLmFamily::kQwen3Moe;
    } else if (attention.qk_norm == QkNorm::kAllHeads) {
      lm_.family = CausalLmFamily::kOlmoe;
      has(lm_.num_heads * lm_.head_size == lm_.hidden, of_attention,
          fmt::format("qk_norm of all {} heads of {} entries for vectors of {}", lm_.num_heads, lm_.head_size,
                      lm_.hidden),
          "`num_heads` times `key_value_size` equal to `d_model`");
      has(!lm_.window, of_attention, "local attention beside qk_norm of all heads", "SelfAttention");
    } else if (has_shared) {
      lm_.family = CausalLmFamily::kQwen2Moe;
      has(lm_.attention_bias != AttentionBias::kAll, of_attention, "biases of all projections",
          "bias: qkv, or false");
    } else {
      lm_.family = CausalLmFamily::kMixtral;
      const std::string alone = "without shared ones and without qk_norm";
      has(lm_.attention_bias == AttentionBias::kNone, of_attention, "biases in SelfAttention " + alone,
          "bias: false");
      has(lm_.experts->normalized, of_experts, "weights that do not add up to 1 " + alone, "normalize: true");
    }
  }

  const LanguageModelOptions& model_;
  Mark mark_;
  CausalLmConfig lm_;
  std::string norm_;
  bool has_scaled_embedding_ = false, has_outer_norms_ = false;
  std::optional<ConvertedRotary> full_rotary_, local_rotary_;
};

constexpr int64_t kUsualTextLength = 1024;

/// A rate that is the variable's, or another one.
std::string rate_text(double rate, double of_variable) {
  return rate == of_variable ? "$dropout" : fmt::to_string(rate);
}

std::string rotary_text(const CausalLmConfig& lm, bool local) {
  if (local && lm.local_rotary_base)
    return fmt::format("rotary: true, rotary_base: {}", *lm.local_rotary_base);
  const std::string text = fmt::format("rotary: true, rotary_base: {}", lm.rotary_base);
  if (!lm.rotary_scaling) return text;
  if (const auto* linear = lm.rotary_scaling->get_if<LinearRotaryScaling>())
    return fmt::format("{}, rotary_scaling: {{type: linear, factor: {}}}", text, linear->factor);
  const auto* llama3 = lm.rotary_scaling->get_if<Llama3RotaryScaling>();
  return fmt::format(
      "{}, rotary_scaling: {{type: llama3, factor: {}, low_frequency: {}, high_frequency: {}, "
      "original_length: {}}}",
      text, llama3->factor, llama3->low_frequency, llama3->high_frequency, llama3->original_length);
}

std::string attention_text(const CausalLmConfig& lm, double rate_of_variable, bool local) {
  const bool has_qk_norm = lm.qk_norm() != QkNorm::kNone;
  std::string text = fmt::format("num_heads: {}, key_value_size: {}", lm.num_heads, lm.head_size);
  if (local) text = fmt::format("radius: {}, {}", *lm.window, text);
  if (lm.num_memory_heads != lm.num_heads) text += fmt::format(", num_memory_heads: {}", lm.num_memory_heads);
  text += fmt::format(", bias: {}, dropout: {}", config::dump(lm.attention_bias).text(),
                      rate_text(lm.attention_dropout, rate_of_variable));
  text += fmt::format(",\n       fold_scaling_into_initializer: {}", has_qk_norm);
  if (has_qk_norm)
    text += fmt::format(", qk_norm: {}, qk_norm_epsilon: {}", config::dump(lm.qk_norm()).text(), lm.epsilon);
  if (lm.scaling_size) text += fmt::format(", scaling_size: {}", *lm.scaling_size);
  if (lm.attention_soft_cap) text += fmt::format(", soft_cap: {}", *lm.attention_soft_cap);
  if (!lm.is_gpt2()) text += ", " + rotary_text(lm, local);
  return text;
}

/// The block, and the entries of `layer_defaults` for its layers of attention.
struct BlockText {
  std::string layers;
  std::string attention;
};

BlockText block_text(const CausalLmConfig& lm, double rate_of_variable, const std::string& initializer) {
  std::vector<std::string> layers;
  for (const bool local : lm.local)
    layers.push_back(fmt::format("{}, {}", local ? kLocalAttention : kFullAttention,
                                 lm.experts ? kExperts : kFeedForward));
  BlockText text{fmt::format("[{}]", fmt::join(layers, ", ")), ""};
  for (const bool local : {false, true}) {
    if (std::ranges::find(lm.local, local) == lm.local.end()) continue;
    text.attention += fmt::format("    {}:\n      {{{},\n       kernel_initializer: {}}}\n",
                                  local ? kLocalAttention : kFullAttention,
                                  attention_text(lm, rate_of_variable, local), initializer);
  }
  return text;
}

/// The layer that turns each vector into another one, as `layer_defaults` has it.
std::string feed_forward_text(const CausalLmConfig& lm, const std::string& initializer) {
  const std::string activation =
      lm.is_gpt2() ? activation_text({lm.activation}) : activation_text({lm.activation, Activation::kLinear});
  if (!lm.experts)
    return fmt::format("{}: {{hidden_size: {}, activation: {}, bias: {}, kernel_initializer: {}}}",
                       kFeedForward, lm.intermediate, activation, lm.feed_forward_bias, initializer);
  const CausalLmExperts& experts = *lm.experts;
  std::string text = fmt::format(
      "{}:\n"
      "      {{num_experts: {}, hidden_size: {}, activation: {}, gating: top_k, dispatch: dropless,\n"
      "       experts_per_token: {}, normalize: {}, balance: {{coef: {}, scope: batch}}",
      kExperts, experts.count, lm.intermediate, activation, experts.per_token, experts.normalized,
      coefficient_text(experts.balance_coef * balance_ratio(lm)));
  if (experts.shared_hidden)
    text += fmt::format(",\n       shared_experts: 1, shared_hidden_size: {}, shared_gate: true",
                        *experts.shared_hidden);
  return text + "}";
}

/// Lines of comments on the losses of experts.
std::string balance_comment(const CausalLmConfig& lm) {
  if (!lm.experts) return "";
  return fmt::format(
      "\n# Each layer of experts adds a balance loss. transformers has one loss of the mean loads of all "
      "layers, times\n"
      "# router_aux_loss_coef ({}), and adds it only with output_router_logits. `balance.coef` is this\n"
      "# coefficient * experts_per_token / num_layers: both losses are the same where the loads of the "
      "layers are alike.",
      lm.experts->balance_coef);
}

}  // namespace

CausalLmConfig causal_lm_of(const Config& config) {
  const Mark mark = config.mark("model");
  const ModelChoice options = parse_model_options(config.model);
  const auto* model = options.get_if<LanguageModelOptions>();
  if (!model) not_causal_lm(mark, "it is no language model", "type: lm");
  return CausalLmReader(*model, mark).read();
}

std::string causal_lm_yaml(const CausalLmConfig& lm, const ModelSurroundings& around) {
  const std::string initializer = fmt::format("{{type: normal, stddev: {}}}", lm.initializer_range);
  const std::string norm = lm.is_gpt2() ? "layer_norm" : "rms_norm";
  // Only a GPT-2 has dropout elsewhere than in attention.
  const double dropout = lm.is_gpt2() ? lm.dropout : lm.attention_dropout;
  const std::string around_layers =
      lm.is_gpt2() ? fmt::format(
                         "initial: [dropout: {}], per_layer: [layer_norm, call_layer, dropout: $dropout, "
                         "residual]",
                         rate_text(lm.embedding_dropout, dropout))
                   : fmt::format("initial: [], per_layer: [rms_norm, call_layer, {}residual]",
                                 lm.has_outer_norms() ? "rms_norm, " : "");
  const std::string cap =
      lm.logit_soft_cap ? fmt::format("  logit_soft_cap: {}\n", *lm.logit_soft_cap) : std::string();
  const BlockText block = block_text(lm, dropout, initializer);
  return fmt::format(
      R"({header}
# A language model that mtf-convert has made of {source}
{usage}{balance}
vars: {{dropout: {dropout}}}
data:
  train: {{type: text, path: texts.txt, join: document}}
  vocabulary: {vocabulary}
  sequence_length: {length}
model:
  type: lm
  num_layers: {layers}
  block: {block}
  sublayers: {{{around_layers}, final: [{norm}]}}
  d_model: {hidden}
  positions: {positions}
  max_length: {max_positions}
  vocab_divisor: 1
  embedding: {{type: vocab, {embedding}, initializer: {initializer}}}
  shared_embedding_and_softmax: {tied}
{cap}  predict_padding: {predicts_padding}
  z_loss: 0
  layer_defaults:
    {norm}: {{epsilon: {epsilon}}}
{attention}    {feed_forward}
optimizer: {{type: adamw, beta2: 0.95, weight_decay: 0.01, no_decay: [norm, bias], clip_norm: 1, scaled_steps: false}}
learning_rate: {{type: cosine, learning_rate: 2e-5, warmup_steps: 100, end: 0.1}}
train: {{steps: 1000, batch_size: 8}}
checkpoint: {{init: {{path: {path}}}}}
)",
      fmt::arg("header", kResolvedHeader), fmt::arg("source", printable(around.source)),
      fmt::arg("usage", usage_comment(around, "data.train.path=FILE")), fmt::arg("dropout", dropout),
      fmt::arg("vocabulary", around.vocabulary),
      fmt::arg("length", std::min(kUsualTextLength, lm.max_positions)),
      fmt::arg("layers", lm.num_layers / lm.pattern()), fmt::arg("block", block.layers),
      fmt::arg("around_layers", around_layers), fmt::arg("norm", norm), fmt::arg("hidden", lm.hidden),
      fmt::arg("positions", lm.is_gpt2() ? "learned" : "none"), fmt::arg("max_positions", lm.max_positions),
      fmt::arg("initializer", initializer), fmt::arg("tied", lm.tied), fmt::arg("cap", cap),
      fmt::arg("embedding", lm.is_gemma() ? "scale_like_classifier: true" : "scale_logits: false"),
      fmt::arg("predicts_padding", lm.predicts_padding), fmt::arg("epsilon", lm.epsilon),
      fmt::arg("attention", block.attention), fmt::arg("feed_forward", feed_forward_text(lm, initializer)),
      fmt::arg("balance", balance_comment(lm)), fmt::arg("path", quoted(around.target.path)));
}

}  // namespace mtf
