// Converts a BART, mBART, M2M100 or Marian to a configuration of this program and back.
#include <fmt/format.h>

#include <algorithm>

#include "engine/base/printable.h"
#include "layers/embeddings/vocab.h"
#include "models/bitransformer.h"
#include "trainer/programs/convert/bart_config.h"
#include "trainer/programs/convert/config_text.h"
#include "trainer/programs/convert/layer_options.h"

namespace mtf {
namespace {

using config::Node;

/// That of torch.nn.LayerNorm, which config.json cannot change.
constexpr double kEpsilon = 1e-5;
constexpr int64_t kUsualPairLength = 256;

constexpr std::string_view kMarianNames = "Marian", kOtherNames = "BART, mBART or M2M100";

/// The value of `sublayers`; `rate` is that of dropout.
std::string sublayers_text(const BartForm& form, const std::string& rate) {
  return fmt::format("{{initial: [{}dropout: {}], per_layer: [{}], final: [{}]}}",
                     form.norms_embedding ? "layer_norm, " : "", rate,
                     form.norms_first ? fmt::format("layer_norm, call_layer, dropout: {}, residual", rate)
                                      : fmt::format("call_layer, dropout: {}, residual, layer_norm", rate),
                     form.norms_first ? "layer_norm" : "");
}

/// The layers of a model, from which its hyperparameters are read.
class BartReader {
 public:
  BartReader(const BitransformerOptions& model, const Mark& mark, bool is_marian)
      : model_(model),
        mark_(mark),
        is_marian_(is_marian),
        refuse_([is_marian](const Mark& place, const std::string& what, const std::string& hint) {
          refuse(is_marian, place, what, hint);
        }) {}

  /// Throws Error (kConfig), which says what differs.
  [[noreturn]] static void refuse(bool is_marian, const Mark& mark, const std::string& what,
                                  const std::string& hint) {
    throw Error(ErrorKind::kConfig, mark,
                fmt::format("the model is no {}: {}", is_marian ? kMarianNames : kOtherNames, what), hint);
  }

  BartConfig read() {
    bart_.kind = kind();
    check_model();
    read_sublayers();
    bart_.start = model_.decoder_start;
    bart_.d_model = model_.d_model;
    bart_.max_positions = model_.max_length;
    if (form().positions == Positions::kLearned) bart_.max_positions -= model_.first_position;
    bart_.shared_embedding = model_.shared_embedding;
    bart_.tied = model_.shared_embedding_and_softmax;
    bart_.predicts_padding = model_.predict_padding;
    const auto* vocab = model_.embedding.get_if<VocabEmbedding>();
    require(vocab && (vocab->scale_like_classifier || !vocab->scale_logits || !bart_.tied), mark_,
            "it has another embedding, or divides logits", "embedding: {type: vocab, scale_logits: false}");
    bart_.scales_embedding = vocab->scale_like_classifier;
    bart_.encoder = stack(model_.encoder, {"SelfAttention", "DenseReluDense"}, "the encoder's block is");
    bart_.decoder = stack(model_.decoder, {"SelfAttention", "EncDecAttention", "DenseReluDense"},
                          "the decoder's block is");
    return bart_;
  }

 private:
  using Names = std::vector<std::string>;

  void require(bool holds, const Mark& mark, const std::string& what, const std::string& right) const {
    if (!holds) refuse(is_marian_, mark, what, right);
  }

  template <class Options>
  Options layer(const LayerEntry& entry) const {
    return parse_layer<Options>(entry, &model_.layer_defaults, refuse_);
  }

  const BartForm& form() const { return form_of(bart_.kind); }

  /// Positions and the place of the norms tell the kind.
  BartKind kind() const {
    if (is_marian_) return BartKind::kMarian;
    if (model_.positions == Positions::kSinusoid) return BartKind::kM2m100;
    require(model_.positions == Positions::kLearned, mark_, "its positions are others",
            "positions: learned, or sinusoid as in M2M100");
    const Node& per_layer = model_.around.sublayers.per_layer;
    double unused = 0;
    const std::vector<LayerEntry> layers =
        per_layer.is_list() ? left_of(per_layer, unused) : std::vector<LayerEntry>();
    return !layers.empty() && layers[0].name == "layer_norm" ? BartKind::kMbart : BartKind::kBart;
  }

  void check_model() const {
    require(model_.positions == form().positions, mark_, "its positions are others",
            "positions: " + config::dump(form().positions).text());
    require(model_.first_position == form().first_position, mark_,
            fmt::format("its positions count from {}", model_.first_position),
            fmt::format("first_position: {}", form().first_position));
    const bool shares = model_.shared_positions.value_or(model_.shared_embedding);
    require(form().positions != Positions::kLearned || !shares, mark_, "encoder and decoder share positions",
            "shared_positions: false");
    require(is_marian_ || model_.shared_embedding, mark_, "inputs and targets have an embedding each",
            "shared_embedding: true");
    require(!model_.logit_soft_cap, mark_, "its logits have a soft cap", "no `logit_soft_cap`");
    require(form().has_bias || !model_.logit_bias, mark_, "its logits have a bias, which no M2M100 has",
            "logit_bias: false");
    require(model_.around.block_scope, mark_, "`block_scope` is false", "block_scope: true");
  }

  std::vector<LayerEntry> left_of(const Node& list, double& rate) const {
    return without_dropout(list, &model_.layer_defaults, refuse_, rate);
  }

  /// Checks a list of sublayers, with the epsilon of its norms, and sets the rate of its dropout.
  void expect_sublayers(const Node& list, const Names& wanted, std::string_view name, double& rate) const {
    const std::vector<LayerEntry> layers = left_of(list, rate);
    expect_layers(layers, wanted, list.mark(), fmt::format("`sublayers.{}` is", name), refuse_);
    for (const LayerEntry& entry : layers) {
      if (entry.name != "layer_norm") continue;
      require(layer<ConvertedNorm>(entry).epsilon == kEpsilon, entry.mark, "its norms have another `epsilon`",
              "layer_norm: {epsilon: 1e-5}");
    }
  }

  void read_sublayers() {
    const SublayerLists& lists = model_.around.sublayers;
    require(lists.per_layer.is_list() && lists.final.is_list() &&
                (lists.initial.is_list() || !form().norms_embedding),
            mark_, "its norms stand elsewhere, or are no `layer_norm`",
            "sublayers: " + sublayers_text(form(), "0.1"));
    require_same_sublayers(lists, refuse_);
    const Names norm = {"layer_norm"}, none = {};
    double unused = 0;
    if (lists.initial.is_list())
      expect_sublayers(lists.initial, form().norms_embedding ? norm : none, "initial", unused);
    expect_sublayers(lists.final, form().norms_first ? norm : none, "final", unused);
    expect_sublayers(lists.per_layer,
                     form().norms_first ? Names{"layer_norm", "call_layer", "residual"}
                                        : Names{"call_layer", "residual", "layer_norm"},
                     "per_layer", bart_.dropout);
  }

  BartStack stack(const StackOptions& options, const std::vector<std::string>& wanted,
                  const std::string& what) {
    const std::vector<LayerEntry> block = layer_entries(options.block);
    expect_layers(block, wanted, options.block.mark(), what, refuse_);
    BartStack stack{.num_layers = options.num_layers, .num_heads = 0};
    for (size_t i = 0; i + 1 < block.size(); ++i) read_attention(block[i], stack);
    const LayerEntry& last = block.back();
    const auto feed_forward = layer<ConvertedFeedForward>(last);
    require(feed_forward.bias, last.mark, "DenseReluDense has no biases", "bias: true");
    require(feed_forward.activation.size() == 1 && !activation_name(feed_forward.activation[0]).empty(),
            last.mark,
            fmt::format("DenseReluDense has the activation {}", activation_text(feed_forward.activation)),
            "gelu_erf, gelu, relu, swish or tanh");
    require(!has_activation_ || feed_forward.activation[0] == bart_.activation, last.mark,
            "encoder and decoder have other activations", "the same of both");
    has_activation_ = true;
    bart_.activation = feed_forward.activation[0];
    bart_.activation_dropout = feed_forward.dropout;
    stack.intermediate = feed_forward.hidden_size;
    return stack;
  }

  void read_attention(const LayerEntry& entry, BartStack& stack) {
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
    bart_.attention_dropout = options.dropout;
  }

  const BitransformerOptions& model_;
  Mark mark_;
  bool is_marian_;
  RefuseLayer refuse_;
  BartConfig bart_;
  bool has_activation_ = false;
};

/// The layers of one side, for a list in config.yaml.
std::string block_text(const BartStack& stack, int64_t d_model, const std::vector<std::string>& attention) {
  std::string text;
  for (const std::string& layer : attention)
    text += fmt::format("{}: {{num_heads: {}, key_value_size: {}}}, ", layer, stack.num_heads,
                        d_model / stack.num_heads);
  return fmt::format("num_layers: {}, block: [{}DenseReluDense: {{hidden_size: {}}}]", stack.num_layers, text,
                     stack.intermediate);
}

/// The kind of the model, for the first lines of config.yaml.
std::string_view title_of(BartKind kind) {
  switch (kind) {
    case BartKind::kMarian:
      return "A translation model of Marian";
    case BartKind::kBart:
      return "A BART";
    case BartKind::kMbart:
      return "An mBART";
    case BartKind::kM2m100:
      return "A translation model like M2M100 and NLLB";
  }
  return {};
}

/// The keys of the model that say what its positions are, and what its decoder begins with.
std::string positions_text(const BartConfig& bart) {
  const BartForm& form = form_of(bart.kind);
  const bool are_learned = form.positions == Positions::kLearned;
  std::string text = fmt::format("positions: {}\n  max_length: {}", config::dump(form.positions).text(),
                                 bart.max_positions + (are_learned ? form.first_position : 0));
  if (form.first_position > 0) text += fmt::format("\n  first_position: {}", form.first_position);
  if (are_learned) text += "\n  shared_positions: false";
  if (bart.start == DecoderStart::kEnd) text += "\n  decoder_start: end";
  return text;
}

}  // namespace

BartConfig bart_of(const Config& config, bool is_marian) {
  const Mark mark = config.mark("model");
  const ModelChoice options = parse_model_options(config.model);
  const auto* model = options.get_if<BitransformerOptions>();
  if (!model) BartReader::refuse(is_marian, mark, "it is no encoder with a decoder", "type: bitransformer");
  return BartReader(*model, mark, is_marian).read();
}

std::string bart_yaml(const BartConfig& bart, const ModelSurroundings& around) {
  const BartForm& form = form_of(bart.kind);
  return fmt::format(
      R"({header}
# {title} that mtf-convert has made of {source}
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
    {sublayers}
  d_model: {d_model}
  {positions}
  vocab_divisor: 1
  shared_embedding: {shared_embedding}
  shared_embedding_and_softmax: {tied}
  embedding: {{type: vocab, {embedding}}}
  logit_bias: {has_bias}
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
{infer}checkpoint: {{init: {{path: {path}}}}}
)",
      fmt::arg("header", kResolvedHeader), fmt::arg("title", title_of(bart.kind)),
      fmt::arg("source", printable(around.source)),
      fmt::arg("usage", usage_comment(around, "data.train.inputs=FILE data.train.targets=FILE")),
      fmt::arg("dropout", bart.dropout), fmt::arg("attention_dropout", bart.attention_dropout),
      fmt::arg("vocabulary", around.vocabulary),
      fmt::arg("length", std::min(kUsualPairLength, bart.max_positions)),
      fmt::arg("encoder", block_text(bart.encoder, bart.d_model, {"SelfAttention"})),
      fmt::arg("decoder", block_text(bart.decoder, bart.d_model, {"SelfAttention", "EncDecAttention"})),
      fmt::arg("sublayers", sublayers_text(form, "$dropout")), fmt::arg("d_model", bart.d_model),
      fmt::arg("positions", positions_text(bart)), fmt::arg("shared_embedding", bart.shared_embedding),
      fmt::arg("tied", bart.tied),
      fmt::arg("embedding", bart.scales_embedding ? "scale_like_classifier: true" : "scale_logits: false"),
      fmt::arg("has_bias", form.has_bias), fmt::arg("predicts_padding", bart.predicts_padding),
      fmt::arg("epsilon", kEpsilon), fmt::arg("activation", activation_text({bart.activation})),
      fmt::arg("activation_dropout", bart.activation_dropout), fmt::arg("infer", infer_line(around)),
      fmt::arg("path", quoted(around.target.path)));
}

}  // namespace mtf
