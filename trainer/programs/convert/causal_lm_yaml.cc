// Converts a decoder-only language model to a configuration of this program and back.
#include <fmt/format.h>

#include <algorithm>

#include "engine/base/printable.h"
#include "engine/config/load.h"
#include "layers/embeddings/vocab.h"
#include "layers/relative_bias.h"
#include "models/transformer.h"
#include "trainer/programs/convert/causal_lm_config.h"
#include "trainer/programs/convert/config_text.h"
#include "trainer/programs/convert/layer_options.h"

namespace mtf {
namespace {

using config::Node;

[[noreturn]] void not_causal_lm(const Mark& mark, const std::string& what, const std::string& hint) {
  throw Error(ErrorKind::kConfig, mark, "the model is no GPT-2, Llama or Qwen: " + what, hint);
}

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
    read_embedding();
    read_sublayers();
    const std::vector<LayerEntry> block = block_layers();
    const CausalLmAttention attention = read_attention(block);
    const auto feed_forward = layer<ConvertedFeedForward>(block[1]);
    for (size_t i = 3; i < block.size(); i += 2)
      require_same(layer<ConvertedFeedForward>(block[i]), feed_forward, block[i]);
    read_heads(attention);
    lm_.intermediate = feed_forward.hidden_size;
    lm_.activation = feed_forward.activation[0];
    lm_.feed_forward_bias = feed_forward.bias;
    require(!activation_name(lm_.activation).empty(), block[1].mark,
            fmt::format("DenseReluDense has the activation {}", activation_text(feed_forward.activation)),
            "gelu_erf, gelu, relu, swish or tanh");
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
    require(!model_.logit_soft_cap, mark_, "its logits have a soft cap", "no `logit_soft_cap`");
    require(model_.positions != Positions::kSinusoid, mark_, "its positions are sinusoids",
            "positions: learned, or none with `rotary: true` of SelfAttention");
  }

  void read_embedding() {
    const auto* vocab = model_.embedding.get_if<VocabEmbedding>();
    require(vocab && !vocab->scale_like_classifier && !(lm_.tied && vocab->scale_logits), mark_,
            "it has another embedding, or divides logits", "embedding: {type: vocab, scale_logits: false}");
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
    expect_names(around, {known ? norm : "rms_norm", "call_layer", "residual"}, given.per_layer.mark(),
                 "`sublayers.per_layer` is");
    add_norm(around[0], true);
    const std::vector<LayerEntry> last = left_of(list(given.final, {"rms_norm"}), rate);
    expect_names(last, {norm}, given.final.mark(), "`sublayers.final` is");
    add_norm(last[0], false);
  }

  /// Returns the layers of the block: attention and feed-forward by turns.
  std::vector<LayerEntry> block_layers() const {
    std::vector<LayerEntry> block = layer_entries(model_.block);
    std::vector<std::string> wanted;
    for (size_t i = 0; i < std::max<size_t>(block.size(), 1); i += 2) {
      const bool is_local = i < block.size() && block[i].name == kLocalAttention;
      wanted.emplace_back(is_local ? kLocalAttention : kFullAttention);
      wanted.emplace_back("DenseReluDense");
    }
    expect_names(block, wanted, model_.block.mark(), "its block is");
    return block;
  }

  /// Refuses a layer with other options than those of the first one.
  template <class Options>
  static void require_same(const Options& options, const Options& first, const LayerEntry& entry) {
    require(config::dump(options) == config::dump(first), entry.mark,
            fmt::format("{} has other options than the first layer of this kind", entry.name),
            "the same options for all layers, as in `layer_defaults`");
  }

  /// Sets the pattern of local layers, and returns what all layers of attention have.
  CausalLmAttention read_attention(const std::vector<LayerEntry>& block) {
    std::optional<CausalLmAttention> first;
    lm_.local.clear();
    for (size_t i = 0; i < block.size(); i += 2) {
      const bool is_local = block[i].name == kLocalAttention;
      const CausalLmAttention options = is_local ? CausalLmAttention(layer<LocalCausalLmAttention>(block[i]))
                                                 : layer<CausalLmAttention>(block[i]);
      check_attention(options, block[i]);
      if (!first) first = options;
      require_same(options, *first, block[i]);
      lm_.local.push_back(is_local);
      if (!is_local) continue;
      require(!lm_.window || lm_.window == options.radius, block[i].mark,
              "its windows are of several lengths", "one `radius` in `layer_defaults`");
      lm_.window = options.radius;
    }
    lm_.num_layers = model_.num_layers * lm_.pattern();
    return *first;
  }

  static void check_attention(const CausalLmAttention& options, const LayerEntry& entry) {
    const auto has_not = [&](bool holds, const std::string& what, const std::string& right) {
      require(holds, entry.mark, fmt::format("{} has {}", entry.name, what), right);
    };
    has_not(!options.shared_kv, "shared_kv", "false");
    has_not(!options.extra_logit, "an extra_logit", "null");
    has_not(!options.soft_cap, "a soft_cap", "null");
    has_not(options.prefix_length == 0, "a prefix", "prefix_length: 0");
    has_not(options.convolution_width == 0, "convolutions", "convolution_width: 0");
    has_not(options.relative_attention_type == RelativeAttention::kNone, "relative positions",
            "relative_attention_type: none");
    // Norms of queries undo a scale before them; the layer then divides behind them.
    if (options.qk_norm) {
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
    gpt2(!attention.qk_norm, of_attention, "qk_norm", "qk_norm: false, or rms_norm");
    gpt2(attention.bias == AttentionBias::kAll, of_attention, "no biases in SelfAttention", "bias: true");
    gpt2(lm_.num_memory_heads == lm_.num_heads, of_attention, "grouped heads", "num_memory_heads: 0");
    gpt2(lm_.num_heads * lm_.head_size == lm_.hidden, of_attention,
         fmt::format("{} heads of {} entries for vectors of {}", lm_.num_heads, lm_.head_size, lm_.hidden),
         "`num_heads` times `key_value_size` equal to `d_model`");
    gpt2(feed_forward.bias, of_feed_forward, "no biases in DenseReluDense", "bias: true");
    gpt2(feed_forward.activation.size() == 1, of_feed_forward, "gated units",
         "one `activation`, such as gelu");
  }

  void check_rotary_model(const CausalLmAttention& attention, const Mark& of_attention,
                          const ConvertedFeedForward& feed_forward, const Mark& of_feed_forward) {
    const auto llama = [](bool holds, const Mark& mark, const std::string& what, const std::string& right) {
      require(holds, mark, "it has rms_norm as a Llama has, and " + what, right);
    };
    llama(model_.positions == Positions::kNone, mark_, "learned positions", "positions: none, or layer_norm");
    llama(attention.rotary, of_attention, "no rotary positions", "rotary: true");
    llama(feed_forward.activation.size() == 2 && feed_forward.activation[1] == Activation::kLinear,
          of_feed_forward, "no gated units", "activation: [swish, linear]");
    const bool is_qwen2 = attention.bias == AttentionBias::kInputs;
    if (attention.qk_norm) {
      lm_.family = CausalLmFamily::kQwen3;
      llama(!is_qwen2, of_attention, "qk_norm with `bias: qkv`", "bias: false, or true");
      llama(lm_.epsilon == ConvertedNorm().epsilon, mark_,
            fmt::format("qk_norm, whose epsilon is {}, beside an epsilon of {}", ConvertedNorm().epsilon,
                        lm_.epsilon),
            "the same one");
    } else if (is_qwen2) {
      lm_.family = CausalLmFamily::kQwen2;
    } else if (lm_.window) {
      lm_.family = CausalLmFamily::kMistral;
      llama(std::ranges::find(lm_.local, false) == lm_.local.end(), of_attention,
            "local attention in some of its layers, as only a Qwen has",
            "LocalSelfAttention in all, or in none");
      llama(attention.bias == AttentionBias::kNone, of_attention, "biases beside local attention",
            "bias: false");
    } else if (lm_.has_odd_heads() && attention.bias == AttentionBias::kNone && !feed_forward.bias) {
      lm_.family = CausalLmFamily::kMistral;
    }
    llama(lm_.family == CausalLmFamily::kLlama || !feed_forward.bias, of_feed_forward,
          "biases of DenseReluDense beside qk_norm, `bias: qkv` or local attention", "bias: false");
  }

  const LanguageModelOptions& model_;
  Mark mark_;
  CausalLmConfig lm_;
  std::string norm_;
};

constexpr int64_t kUsualTextLength = 1024;

/// A rate that is the variable's, or another one.
std::string rate_text(double rate, double of_variable) {
  return rate == of_variable ? "$dropout" : fmt::to_string(rate);
}

std::string rotary_text(const CausalLmConfig& lm) {
  std::string text = fmt::format("rotary: true, rotary_base: {}", lm.rotary_base);
  if (!lm.rotary_scaling) return text;
  if (const auto* linear = lm.rotary_scaling->get_if<LinearRotaryScaling>())
    return fmt::format("{}, rotary_scaling: {{type: linear, factor: {}}}", text, linear->factor);
  const auto* llama3 = lm.rotary_scaling->get_if<Llama3RotaryScaling>();
  return fmt::format(
      "{}, rotary_scaling: {{type: llama3, factor: {}, low_frequency: {}, high_frequency: {}, "
      "original_length: {}}}",
      text, llama3->factor, llama3->low_frequency, llama3->high_frequency, llama3->original_length);
}

std::string attention_text(const CausalLmConfig& lm, double rate_of_variable) {
  const bool has_qk_norm = lm.family == CausalLmFamily::kQwen3;
  std::string text = fmt::format("num_heads: {}, key_value_size: {}", lm.num_heads, lm.head_size);
  if (lm.num_memory_heads != lm.num_heads) text += fmt::format(", num_memory_heads: {}", lm.num_memory_heads);
  text += fmt::format(", bias: {}, dropout: {}", config::dump(lm.attention_bias).text(),
                      rate_text(lm.attention_dropout, rate_of_variable));
  text += fmt::format(",\n       fold_scaling_into_initializer: {}", has_qk_norm);
  if (has_qk_norm) text += ", qk_norm: true";
  if (!lm.is_gpt2()) text += ", " + rotary_text(lm);
  return text;
}

/// The block, and the entries of `layer_defaults` for its layers of attention.
struct BlockText {
  std::string layers;
  std::string attention;
};

BlockText block_text(const CausalLmConfig& lm, const std::string& attention, const std::string& initializer) {
  std::vector<std::string> layers;
  for (const bool local : lm.local)
    layers.push_back(fmt::format("{}, DenseReluDense", local ? kLocalAttention : kFullAttention));
  BlockText text{fmt::format("[{}]", fmt::join(layers, ", ")), ""};
  for (const bool local : {false, true}) {
    if (std::ranges::find(lm.local, local) == lm.local.end()) continue;
    text.attention += fmt::format(
        "    {}:\n      {{{}{},\n       kernel_initializer: {}}}\n", local ? kLocalAttention : kFullAttention,
        local ? fmt::format("radius: {}, ", *lm.window) : "", attention, initializer);
  }
  return text;
}

}  // namespace

CausalLmConfig causal_lm_of(const Config& config) {
  const Mark mark = config.mark("model");
  Diagnostics diagnostics;
  const auto options = config::parse<ModelChoice>(config.model, diagnostics, "model");
  diagnostics.throw_if_errors();
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
                   : "initial: [], per_layer: [rms_norm, call_layer, residual]";
  const std::string activation =
      lm.is_gpt2() ? activation_text({lm.activation}) : activation_text({lm.activation, Activation::kLinear});
  const BlockText block = block_text(lm, attention_text(lm, dropout), initializer);
  return fmt::format(
      R"({header}
# A language model that mtf-convert has made of {source}
{usage}
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
  embedding: {{type: vocab, scale_logits: false, initializer: {initializer}}}
  shared_embedding_and_softmax: {tied}
  predict_padding: {predicts_padding}
  z_loss: 0
  layer_defaults:
    {norm}: {{epsilon: {epsilon}}}
{attention}    DenseReluDense: {{hidden_size: {intermediate}, activation: {activation}, bias: {bias}, kernel_initializer: {initializer}}}
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
      fmt::arg("initializer", initializer), fmt::arg("tied", lm.tied),
      fmt::arg("predicts_padding", lm.predicts_padding), fmt::arg("epsilon", lm.epsilon),
      fmt::arg("attention", block.attention), fmt::arg("intermediate", lm.intermediate),
      fmt::arg("activation", activation), fmt::arg("bias", lm.feed_forward_bias),
      fmt::arg("path", quoted(around.target.path)));
}

}  // namespace mtf
