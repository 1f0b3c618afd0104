// Converts a Marian to a configuration of this program and back.
#include <fmt/format.h>

#include <algorithm>

#include "engine/base/printable.h"
#include "layers/embeddings/vocab.h"
#include "models/bitransformer.h"
#include "trainer/programs/convert/config_text.h"
#include "trainer/programs/convert/layer_options.h"
#include "trainer/programs/convert/marian_config.h"

namespace mtf {
namespace {

using config::Node;

/// That of torch.nn.LayerNorm, which config.json cannot change.
constexpr double kEpsilon = 1e-5;
constexpr int64_t kUsualPairLength = 256;

[[noreturn]] void not_marian(const Mark& mark, const std::string& what, const std::string& hint) {
  throw Error(ErrorKind::kConfig, mark, "the model is no Marian: " + what, hint);
}

/// The layers of a model, from which its hyperparameters are read.
class MarianReader {
 public:
  MarianReader(const BitransformerOptions& model, const Mark& mark) : model_(model), mark_(mark) {}

  MarianConfig read() {
    check_model();
    read_sublayers();
    marian_.d_model = model_.d_model;
    marian_.max_positions = model_.max_length;
    marian_.shared_embedding = model_.shared_embedding;
    marian_.tied = model_.shared_embedding_and_softmax;
    marian_.predicts_padding = model_.predict_padding;
    const auto* vocab = model_.embedding.get_if<VocabEmbedding>();
    require(vocab && (vocab->scale_like_classifier || !vocab->scale_logits || !marian_.tied), mark_,
            "it has another embedding, or divides logits", "embedding: {type: vocab, scale_logits: false}");
    marian_.scales_embedding = vocab->scale_like_classifier;
    marian_.encoder = stack(model_.encoder, {"SelfAttention", "DenseReluDense"}, "the encoder's block is");
    marian_.decoder = stack(model_.decoder, {"SelfAttention", "EncDecAttention", "DenseReluDense"},
                            "the decoder's block is");
    return marian_;
  }

 private:
  static void require(bool holds, const Mark& mark, const std::string& what, const std::string& right) {
    if (!holds) not_marian(mark, what, right);
  }

  template <class Options>
  Options layer(const LayerEntry& entry) const {
    return parse_layer<Options>(entry, &model_.layer_defaults, not_marian);
  }

  void check_model() const {
    require(model_.positions == Positions::kSinusoidHuggingFace, mark_, "its positions are others",
            "positions: sinusoid_hf");
    require(!model_.logit_soft_cap, mark_, "its logits have a soft cap", "no `logit_soft_cap`");
    require(model_.around.block_scope, mark_, "`block_scope` is false", "block_scope: true");
  }

  std::vector<LayerEntry> left_of(const Node& list, double& rate) const {
    return without_dropout(list, &model_.layer_defaults, not_marian, rate);
  }

  void read_sublayers() {
    const SublayerLists& lists = model_.around.sublayers;
    require(lists.per_layer.is_list() && lists.final.is_list(), mark_, "it has no norm after each layer",
            "sublayers: {initial: [], per_layer: [call_layer, dropout, residual, layer_norm], final: []}");
    double unused = 0;
    if (lists.initial.is_list())
      expect_layers(left_of(lists.initial, unused), {}, lists.initial.mark(), "`sublayers.initial` is",
                    not_marian);
    expect_layers(left_of(lists.final, unused), {}, lists.final.mark(), "`sublayers.final` is", not_marian);
    const std::vector<LayerEntry> around = left_of(lists.per_layer, marian_.dropout);
    expect_layers(around, {"call_layer", "residual", "layer_norm"}, lists.per_layer.mark(),
                  "`sublayers.per_layer` is", not_marian);
    require(layer<ConvertedNorm>(around[2]).epsilon == kEpsilon, around[2].mark,
            "its norms have another `epsilon`", "layer_norm: {epsilon: 1e-5}");
  }

  MarianStack stack(const StackOptions& options, const std::vector<std::string>& wanted,
                    const std::string& what) {
    const std::vector<LayerEntry> block = layer_entries(options.block);
    expect_layers(block, wanted, options.block.mark(), what, not_marian);
    MarianStack stack{.num_layers = options.num_layers, .num_heads = 0};
    for (size_t i = 0; i + 1 < block.size(); ++i) read_attention(block[i], stack);
    const LayerEntry& last = block.back();
    const auto feed_forward = layer<ConvertedFeedForward>(last);
    require(feed_forward.bias, last.mark, "DenseReluDense has no biases", "bias: true");
    require(feed_forward.activation.size() == 1 && !activation_name(feed_forward.activation[0]).empty(),
            last.mark,
            fmt::format("DenseReluDense has the activation {}", activation_text(feed_forward.activation)),
            "gelu_erf, gelu, relu, swish or tanh");
    require(!has_activation_ || feed_forward.activation[0] == marian_.activation, last.mark,
            "encoder and decoder have other activations", "the same of both");
    has_activation_ = true;
    marian_.activation = feed_forward.activation[0];
    marian_.activation_dropout = feed_forward.dropout;
    stack.intermediate = feed_forward.hidden_size;
    return stack;
  }

  void read_attention(const LayerEntry& entry, MarianStack& stack) {
    const auto options = layer<ConvertedAttention>(entry);
    const auto check = [&](bool holds, const std::string& what, const std::string& right) {
      require(holds, entry.mark, fmt::format("{} has {}", entry.name, what), right);
    };
    check(options.num_memory_heads == 0 || options.num_memory_heads == options.num_heads, "num_memory_heads",
          "0");
    check(!options.shared_kv, "shared_kv", "false");
    check(!options.fold_scaling_into_initializer, "fold_scaling_into_initializer", "false");
    check(!options.extra_logit, "an extra_logit", "null");
    check(!options.soft_cap, "a soft_cap", "null");
    check(!options.scaling_size || *options.scaling_size == options.key_value_size, "a scaling_size", "null");
    check(options.qk_norm == QkNorm::kNone, "qk_norm", "false");
    check(options.prefix_length == 0, "a prefix", "prefix_length: 0");
    check(options.bias == AttentionBias::kAll, "no biases", "bias: true");
    check(options.num_heads * options.key_value_size == model_.d_model,
          fmt::format("{} heads of {}", options.num_heads, options.key_value_size),
          fmt::format("heads with {} entries together", model_.d_model));
    check(stack.num_heads == 0 || stack.num_heads == options.num_heads, "other heads than the layer before",
          "`num_heads` of one value");
    stack.num_heads = options.num_heads;
    marian_.attention_dropout = options.dropout;
  }

  const BitransformerOptions& model_;
  Mark mark_;
  MarianConfig marian_;
  bool has_activation_ = false;
};

/// The layers of one side, for a list in config.yaml.
std::string block_text(const MarianStack& stack, int64_t d_model, const std::vector<std::string>& attention) {
  std::string text;
  for (const std::string& layer : attention)
    text += fmt::format("{}: {{num_heads: {}, key_value_size: {}}}, ", layer, stack.num_heads,
                        d_model / stack.num_heads);
  return fmt::format("num_layers: {}, block: [{}DenseReluDense: {{hidden_size: {}}}]", stack.num_layers, text,
                     stack.intermediate);
}

}  // namespace

MarianConfig marian_of(const Config& config) {
  const Mark mark = config.mark("model");
  const ModelChoice options = parse_model_options(config.model);
  const auto* model = options.get_if<BitransformerOptions>();
  if (!model) not_marian(mark, "it is no encoder with a decoder", "type: bitransformer");
  MarianConfig marian = MarianReader(*model, mark).read();
  marian.num_beams = config.infer.is_beam() ? config.infer.beam_size : 1;
  return marian;
}

std::string marian_yaml(const MarianConfig& marian, const ModelSurroundings& around) {
  return fmt::format(
      R"({header}
# A translation model of Marian that mtf-convert has made of {source}
{usage}
vars: {{dropout: {dropout}, attention_dropout: {attention_dropout}, activation_dropout: {activation_dropout}}}
data:
  train: {{type: parallel, inputs: inputs.txt, targets: targets.txt}}
  vocabulary: {vocabulary}
  sequence_length: {length}
model:
  type: bitransformer
  encoder: {{{encoder}}}
  decoder: {{{decoder}}}
  sublayers:
    {{initial: [dropout: $dropout], per_layer: [call_layer, dropout: $dropout, residual, layer_norm], final: []}}
  d_model: {d_model}
  positions: sinusoid_hf
  max_length: {max_positions}
  vocab_divisor: 1
  shared_embedding: {shared_embedding}
  shared_embedding_and_softmax: {tied}
  embedding: {{type: vocab, {embedding}}}
  logit_bias: true
  predict_padding: {predicts_padding}
  z_loss: 0
  layer_defaults:
    layer_norm: {{epsilon: {epsilon}}}
    SelfAttention: {{bias: true, fold_scaling_into_initializer: false, dropout: $attention_dropout}}
    EncDecAttention: {{bias: true, fold_scaling_into_initializer: false, dropout: $attention_dropout}}
    DenseReluDense: {{activation: {activation}, bias: true, dropout: $activation_dropout}}
optimizer: {{type: adamw, beta2: 0.98, weight_decay: 0.01, no_decay: [norm, bias], clip_norm: 1, scaled_steps: false}}
learning_rate: {{type: cosine, learning_rate: 2e-5, warmup_steps: 100, end: 0.1}}
train: {{steps: 1000, batch_size: 32}}
infer: {{beam_size: {num_beams}}}
checkpoint: {{init: {{path: {path}}}}}
)",
      fmt::arg("header", kResolvedHeader), fmt::arg("source", printable(around.source)),
      fmt::arg("usage", usage_comment(around, "data.train.inputs=FILE data.train.targets=FILE")),
      fmt::arg("dropout", marian.dropout), fmt::arg("attention_dropout", marian.attention_dropout),
      fmt::arg("vocabulary", around.vocabulary),
      fmt::arg("length", std::min(kUsualPairLength, marian.max_positions)),
      fmt::arg("encoder", block_text(marian.encoder, marian.d_model, {"SelfAttention"})),
      fmt::arg("decoder", block_text(marian.decoder, marian.d_model, {"SelfAttention", "EncDecAttention"})),
      fmt::arg("d_model", marian.d_model), fmt::arg("max_positions", marian.max_positions),
      fmt::arg("shared_embedding", marian.shared_embedding), fmt::arg("tied", marian.tied),
      fmt::arg("embedding", marian.scales_embedding ? "scale_like_classifier: true" : "scale_logits: false"),
      fmt::arg("predicts_padding", marian.predicts_padding), fmt::arg("epsilon", kEpsilon),
      fmt::arg("activation", activation_text({marian.activation})),
      fmt::arg("activation_dropout", marian.activation_dropout), fmt::arg("num_beams", marian.num_beams),
      fmt::arg("path", quoted(around.target.path)));
}

}  // namespace mtf
