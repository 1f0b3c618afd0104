// Converts a T5 to a configuration of this program and back.
#include <fmt/format.h>

#include "engine/base/printable.h"
#include "engine/config/load.h"
#include "layers/attention.h"
#include "layers/embeddings/vocab.h"
#include "models/bitransformer.h"
#include "trainer/programs/convert/config_text.h"
#include "trainer/programs/convert/layer_options.h"
#include "trainer/programs/convert/t5_config.h"

namespace mtf {
namespace {

using config::Node;

[[noreturn]] void not_t5(const Mark& mark, const std::string& what, const std::string& hint) {
  throw Error(ErrorKind::kConfig, mark, "the model is no T5: " + what, hint);
}

/// The options of the layers of a T5 that determine what it computes. A layer with other options is rejected,
/// since a T5 does not have them.
struct T5SelfAttention : HeadOptions {
  RelativeAttention relative_attention_type = RelativeAttention::kNone;
  int64_t relative_attention_num_buckets = 32;
};
void describe(config::Visitor& visit, T5SelfAttention& options) {
  describe(visit, static_cast<HeadOptions&>(options));
  visit("relative_attention_type", options.relative_attention_type, "");
  visit("relative_attention_num_buckets", options.relative_attention_num_buckets, "");
}

/// The layers of one side (encoder or decoder), with the model's defaults for them.
class T5Block {
 public:
  T5Block(const Node& list, const Node& defaults, const std::string& side)
      : defaults_(defaults), layers_(layer_entries(list)) {
    const std::vector<std::string> wanted =
        side == "encoder" ? std::vector<std::string>{"SelfAttention", "DenseReluDense"}
                          : std::vector<std::string>{"SelfAttention", "EncDecAttention", "DenseReluDense"};
    expect_layers(layers_, wanted, list.mark(), fmt::format("the {}'s block is", side), not_t5);
  }

  template <class Options>
  Options layer(size_t index) const {
    return parse_layer<Options>(layers_[index], &defaults_, not_t5);
  }

 private:
  const Node& defaults_;
  std::vector<LayerEntry> layers_;
};

/// The heads of one side; all attention layers of a T5 have the same heads.
class Heads {
 public:
  Heads(const Mark& mark, T5Config& t5) : mark_(mark), t5_(t5) {}

  void add(const std::string& layer, const HeadOptions& options) {
    if (options.num_memory_heads != 0 && options.num_memory_heads != options.num_heads)
      differs(layer, "has num_memory_heads", "0");
    if (options.shared_kv) differs(layer, "has shared_kv", "false");
    if (!options.fold_scaling_into_initializer)
      differs(layer, "has no fold_scaling_into_initializer", "true");
    if (options.extra_logit) differs(layer, "has an extra_logit", "null");
    if (options.soft_cap) differs(layer, "has a soft_cap", "null");
    if (options.qk_norm != QkNorm::kNone) differs(layer, "has qk_norm", "false");
    if (options.prefix_length != 0) differs(layer, "has a prefix", "prefix_length: 0");
    if (options.bias != AttentionBias::kNone) differs(layer, "has biases", "bias: false");
    if (known_ && (options.num_heads != t5_.num_heads || options.key_value_size != t5_.d_kv))
      differs(layer, "has other heads than the layer before", "num_heads and key_value_size of one value");
    known_ = true;
    t5_.num_heads = options.num_heads;
    t5_.d_kv = options.key_value_size;
  }
  void add_self(const T5SelfAttention& options) {
    const bool known = known_;
    add("SelfAttention", options);
    if (options.relative_attention_type != RelativeAttention::kBiasShared)
      differs("SelfAttention", "has other relative positions", "relative_attention_type: bias_shared");
    if (known && options.relative_attention_num_buckets != t5_.num_buckets)
      differs("SelfAttention", "has other buckets in the decoder",
              "relative_attention_num_buckets of one value");
    t5_.num_buckets = options.relative_attention_num_buckets;
  }

 private:
  [[noreturn]] void differs(const std::string& layer, const std::string& what,
                            const std::string& right) const {
    not_t5(mark_, fmt::format("{} {}", layer, what), right);
  }
  const Mark& mark_;
  T5Config& t5_;
  bool known_ = false;
};

void check_model(const BitransformerOptions& options, const Mark& mark) {
  const auto require = [&](bool holds, const char* what, const char* right) {
    if (!holds) not_t5(mark, what, right);
  };
  require(options.positions == Positions::kNone, "its `positions` are added to embeddings",
          "positions: none");
  require(options.decoder_start == DecoderStart::kPadding, "its decoder begins with the end of sequence",
          "decoder_start: padding");
  require(options.shared_embedding, "inputs and targets have embeddings of their own",
          "shared_embedding: true");
  require(!options.logit_soft_cap, "its logits have a soft cap", "no `logit_soft_cap`");
  require(!options.logit_bias, "its logits have a bias", "logit_bias: false");
  require(options.predict_padding, "padding has no probability", "predict_padding: true");
  require(options.around.block_scope, "`block_scope` is false", "block_scope: true");
  const auto* embedding = options.embedding.get_if<VocabEmbedding>();
  require(embedding && !embedding->scale_like_classifier, "it has another embedding", "embedding: vocab");
  const SublayerLists& lists = options.around.sublayers;
  require(
      lists.initial.is_null() && lists.first.is_null() && lists.per_layer.is_null() && lists.final.is_null(),
      "it has `sublayers` of its own", "no `sublayers`");
}

}  // namespace

T5Config t5_of(const Config& config) {
  const Mark mark = config.mark("model");
  const ModelChoice options = parse_model_options(config.model);
  const auto* model = options.get_if<BitransformerOptions>();
  if (!model) not_t5(mark, "it is no encoder with a decoder", "type: bitransformer");
  check_model(*model, mark);
  const T5Block encoder(model->encoder.block, model->layer_defaults, "encoder");
  const T5Block decoder(model->decoder.block, model->layer_defaults, "decoder");
  T5Config t5;
  t5.d_model = model->d_model;
  t5.num_layers = model->encoder.num_layers;
  t5.num_decoder_layers = model->decoder.num_layers;
  t5.dropout = model->around.dropout;
  t5.tied = model->shared_embedding_and_softmax;
  t5.scaled_logits = t5.tied && model->embedding.get_if<VocabEmbedding>()->scale_logits;
  Heads heads(mark, t5);
  heads.add_self(encoder.layer<T5SelfAttention>(0));
  heads.add_self(decoder.layer<T5SelfAttention>(0));
  heads.add("EncDecAttention", decoder.layer<ConvertedAttention>(1));
  const auto of_encoder = encoder.layer<ConvertedFeedForward>(1),
             of_decoder = decoder.layer<ConvertedFeedForward>(2);
  if (of_encoder.hidden_size != of_decoder.hidden_size || of_encoder.activation != of_decoder.activation)
    not_t5(mark, "encoder and decoder have other DenseReluDense", "the same of both");
  if (of_encoder.bias || of_decoder.bias) not_t5(mark, "DenseReluDense has biases", "bias: false");
  t5.d_ff = of_encoder.hidden_size;
  t5.activation = of_encoder.activation;
  if (!has_feed_forward_name(t5.activation))
    not_t5(mark, fmt::format("DenseReluDense has the activation {}", activation_text(t5.activation)),
           "relu, gelu, swish, or [gelu, linear], [swish, linear], [relu, linear]");
  if (const Node* norm = model->layer_defaults.find("rms_norm")) {
    Diagnostics diagnostics;
    t5.epsilon = config::parse<ConvertedNorm>(*norm, diagnostics, "rms_norm").epsilon;
    diagnostics.throw_if_errors();
  }
  return t5;
}

std::string t5_yaml(const T5Config& t5, const ModelSurroundings& around) {
  const std::string heads = fmt::format("num_heads: {}, key_value_size: {}", t5.num_heads, t5.d_kv);
  const char* const unscaled =
      t5.tied && !t5.scaled_logits ? "\n  embedding: {type: vocab, scale_logits: false}" : "";
  std::string text = fmt::format(
      R"({13}
# A T5 that mtf-convert has made of {0}
{1}
vars: {{dropout: {2}}}
data:
  train: {{type: parallel, inputs: inputs.txt, targets: targets.txt}}
  vocabulary: {3}
  sequence_length: 512
model:
  type: bitransformer
  encoder: {{num_layers: {4}, block: [SelfAttention, DenseReluDense]}}
  decoder: {{num_layers: {5}, block: [SelfAttention, EncDecAttention, DenseReluDense]}}
  d_model: {6}
  dropout: $dropout
  positions: none
  vocab_divisor: {7}      # {7} rows, whatever the vocabulary has
  shared_embedding_and_softmax: {8}{14}
  layer_defaults:
    SelfAttention: {{{9}, dropout: $dropout, relative_attention_type: bias_shared, relative_attention_num_buckets: {10}}}
    EncDecAttention: {{{9}, dropout: $dropout}}
    DenseReluDense: {{hidden_size: {11}, activation: {12}, dropout: $dropout}}
)",
      printable(around.source), usage_comment(around, "data.train.inputs=FILE data.train.targets=FILE"),
      t5.dropout, around.vocabulary, t5.num_layers, t5.num_decoder_layers, t5.d_model, t5.vocab_size, t5.tied,
      heads, t5.num_buckets, t5.d_ff, activation_text(t5.activation), kResolvedHeader, unscaled);
  if (t5.epsilon != T5Config().epsilon) text += fmt::format("    rms_norm: {{epsilon: {}}}\n", t5.epsilon);
  return text + fmt::format(R"(learning_rate: 0.001
train: {{steps: 10000, batch_size: 32}}
{}checkpoint: {{init: {{path: {}}}}}
)",
                            infer_line(around), quoted(around.target.path));
}

}  // namespace mtf
