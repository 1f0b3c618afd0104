// Converts a BERT to a configuration of this program and back.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "data/labelled/squad.h"
#include "engine/base/printable.h"
#include "engine/base/with_article.h"
#include "layers/layer_stack.h"
#include "layers/positions.h"
#include "trainer/programs/convert/bert_config.h"
#include "trainer/programs/convert/bert_layers.h"
#include "trainer/programs/convert/config_text.h"
#include "trainer/programs/convert/layer_options.h"
#include "trainer/programs/convert/modern_bert.h"

namespace mtf {
namespace {

using config::Node;

/// The function of the layer before the classes of a text.
Activation pooler_activation(BertFamily family) {
  return family == BertFamily::kDistilBert ? Activation::kRelu : Activation::kTanh;
}

/// The function of the layer before the logits of hidden tokens; a RoBERTa has the same whatever its blocks have.
Activation transform_activation(const BertConfig& bert) {
  return is_roberta(bert.family) ? Activation::kGeluErf : bert.activation;
}

/// The layers of a BERT's model, from which its hyperparameters are read.
class BertReader : public BertLayersReader {
 public:
  explicit BertReader(const Config& config) : BertLayersReader(config, "BERT") {}

  BertConfig read() {
    read_head();
    read_list();
    const bool classifies = is_of_texts(bert_.head);
    const bool has_dense = bert_.head != BertHead::kMaskedLm && bert_.head != BertHead::kPretraining;
    const double before_last = dropout_before_last();
    leave_dropout_out();
    read_family();
    std::vector<std::string> wanted = {"embedding", "token_types", "positions", "layer_norm", "transformer"};
    if (bert_.family == BertFamily::kDistilBert) std::erase(wanted, "token_types");
    if (classifies) wanted.emplace_back("pooler");
    if (has_dense) wanted.emplace_back("dense");
    expect_names(list_, wanted, list_mark_, "its layers are");
    read_embedding(at("embedding"), has_dense);
    add_norm(at("layer_norm"));
    read_stack(layer<ConvertedStack>(at("transformer")), at("transformer").mark);
    if (classifies) read_pooler(at("pooler"));
    if (has_classifier(bert_.head) && before_last != bert_.dropout) bert_.classifier_dropout = before_last;
    if (bert_.head == BertHead::kSpans && bert_.family == BertFamily::kDistilBert)
      bert_.answer_dropout = before_last;
    if (!has_dense) read_transform();
    return bert_;
  }

 private:
  /// Only a DistilBERT has no types of tokens, and only a RoBERTa begins with a later row of its positions.
  void read_family() {
    if (const LayerEntry* const entry = find("positions")) {
      const auto positions = layer<ConvertedPositions>(*entry);
      require(positions.type == Positions::kLearned, entry->mark, "its positions have no table",
              "positions: learned");
      bert_.first_position = positions.first_position;
    }
    const LayerEntry* const entry = find("token_types");
    bert_.family = bert_.first_position > 0 ? BertFamily::kRoberta
                   : entry                  ? BertFamily::kBert
                                            : BertFamily::kDistilBert;
    if (!entry) return;
    const int64_t second = is_roberta(bert_.family) ? 0 : 1;
    require(layer<ConvertedTokenTypes>(*entry).second_text == second, entry->mark,
            fmt::format("the second text of a row is not of type {}, as that of {}", second,
                        with_article(name_of(bert_.family))),
            fmt::format("token_types: {{second_text: {}}}", second));
  }

  void read_pooler(const LayerEntry& entry) {
    const auto pooler = layer<ConvertedPooler>(entry);
    const Activation activation = pooler_activation(bert_.family);
    require(pooler.from == "first" && pooler.activation == activation, entry.mark,
            "its pooler is another one",
            fmt::format("pooler: {{from: first, activation: {}}}", activation_text({activation})));
  }

  void add_norm(const LayerEntry& entry) { add_epsilon(layer<ConvertedNorm>(entry).epsilon, entry.mark); }

  void read_stack(const ConvertedStack& stack, const Mark& mark) {
    require(!stack.causal, mark, "its tokens do not see those behind them", "causal: false");
    require(stack.block_scope, mark, "`block_scope` is false", "block_scope: true");
    const SublayerLists& lists = stack.sublayers;
    require(lists.initial.is_list() && lists.per_layer.is_list() && lists.final.is_list(), mark,
            "it has no norm after each layer",
            "sublayers: {initial: [], per_layer: [call_layer, dropout, residual, layer_norm], final: []}");
    require_same_sublayers(lists, refusal());
    double unused = 0;
    expect_names(left_of(lists.initial, unused), {}, mark, "`sublayers.initial` is");
    expect_names(left_of(lists.final, unused), {}, mark, "`sublayers.final` is");
    const std::vector<LayerEntry> around = left_of(lists.per_layer, bert_.dropout);
    expect_names(around, {"call_layer", "residual", "layer_norm"}, mark, "`sublayers.per_layer` is");
    add_norm(around[2]);
    bert_.num_layers = stack.num_layers;
    const std::vector<LayerEntry> block = layer_entries(stack.block);
    expect_names(block, {"SelfAttention", "DenseReluDense"}, stack.block.mark(), "its block is");
    read_attention(layer<ConvertedAttention>(block[0]), block[0].mark);
    const auto feed_forward = layer<ConvertedFeedForward>(block[1]);
    const Mark& of_feed_forward = block[1].mark;
    require(feed_forward.bias, of_feed_forward, "DenseReluDense has no biases", "bias: true");
    require(feed_forward.activation.size() == 1 && !activation_name(feed_forward.activation[0]).empty(),
            of_feed_forward,
            fmt::format("DenseReluDense has the activation {}", activation_text(feed_forward.activation)),
            "gelu_erf, gelu, relu, swish or tanh");
    bert_.intermediate = feed_forward.hidden_size;
    bert_.activation = feed_forward.activation[0];
  }

  void read_attention(const HeadOptions& options, const Mark& mark) {
    require_plain_attention(options, mark, refusal());
    require(options.bias == AttentionBias::kAll, mark, "SelfAttention has no biases", "bias: true");
    bert_.num_heads = options.num_heads;
    bert_.attention_dropout = options.dropout;
  }

  void read_transform() {
    const Activation activation = transform_activation(bert_);
    const Node* transform = model_.find("transform");
    if (!transform) {
      require(activation == Activation::kGelu, mark_, "the layers of `transform` have another activation",
              fmt::format("a list `transform` with the activation {}", activation_text({activation})));
      return;
    }
    const std::vector<LayerEntry> list = layer_entries(*transform);
    expect_names(list, {"dense", "layer_norm"}, transform->mark(), "`transform` is");
    const auto dense = layer<ConvertedDense>(list[0]);
    require(dense.bias && dense.activation == activation, list[0].mark,
            "the layers of `transform` have another activation",
            fmt::format("{}, and a bias", activation_text({activation})));
    add_norm(list[1]);
  }
};

std::string quoted_list(const std::vector<std::string>& texts) {
  std::vector<Node> elements;
  for (const std::string& text : texts) elements.push_back(Node::scalar(text, {}, true));
  return config::to_flow_yaml(Node::list(std::move(elements)));
}

/// The columns of the numbers that a regression predicts.
std::vector<std::string> target_columns(const BertConfig& bert) {
  if (bert.labels == 1) return {"target"};
  std::vector<std::string> columns;
  for (int64_t i = 0; i < bert.labels; ++i) columns.push_back(fmt::format("target_{}", i));
  return columns;
}

constexpr int64_t kUsualLength = 128;

/// The value of data.sequence_length.
int64_t length_of(const BertConfig& bert) {
  return std::min(kUsualLength, bert.max_positions - bert.first_position);
}

/// The key special_tokens where a row begins with an unusual token; with a comma before it.
std::string special_tokens_of(const BertConfig& bert) {
  if (bert.start_token.empty()) return {};
  return fmt::format(", special_tokens: {{start: {}, between: {}}}", quoted(bert.start_token),
                     is_roberta(bert.family) ? 2 : 1);
}

std::string objective_of(const BertConfig& bert) {
  std::string keys = special_tokens_of(bert);
  if (!bert.mask_token.empty()) keys += fmt::format(", mask: {}", quoted(bert.mask_token));
  if (bert.head == BertHead::kPretraining) keys += ", pairs: next_sentence";
  return keys.empty() ? "masked_lm" : fmt::format("{{type: masked_lm{}}}", keys);
}

std::string data_of(const BertConfig& bert) {
  std::string keys = bert.label_names.empty() ? "" : ", classes: " + quoted_list(bert.label_names);
  keys += special_tokens_of(bert);
  switch (bert.head) {
    case BertHead::kMaskedLm:
      return fmt::format("{{type: text, path: texts.txt, objective: {}}}", objective_of(bert));
    case BertHead::kPretraining:
      return fmt::format("{{type: text, path: texts.txt, join: document, objective: {}}}",
                         objective_of(bert));
    case BertHead::kClassifier:
      return fmt::format("{{type: labelled_text, path: train.tsv, text: text, labels: label{}}}", keys);
    case BertHead::kRegression:
      return fmt::format("{{type: labelled_text, path: train.tsv, text: text, targets: {}{}}}",
                         quoted_list(target_columns(bert)), keys);
    case BertHead::kTagger:
      return fmt::format("{{type: conll, path: train.conll{}}}", keys);
    case BertHead::kSpans:
      break;
  }
  // Questions leave half of a row to the texts.
  const int64_t question = length_of(bert) / 2;
  if (question < SquadOptions().max_question) keys += fmt::format(", max_question: {}", question);
  return fmt::format("{{type: squad, path: train.json{}}}", keys);
}

std::string_view type_of(BertHead head) {
  switch (head) {
    case BertHead::kClassifier:
      return "classifier\n  input: inputs";
    case BertHead::kRegression:
      return "regression\n  input: inputs";
    case BertHead::kTagger:
      return "tagger";
    case BertHead::kSpans:
      return "spans";
    default:
      return "masked_lm";
  }
}

/// What follows the layers of a BERT.
std::string head_text(const BertConfig& bert, const std::string& initializer) {
  const auto dense = [&](std::string_view name, std::string_view output, int64_t size) {
    return fmt::format("    - dense: {{name: {}, output: {{{}: {}}}, kernel_initializer: {}}}\n", name,
                       output, size, initializer);
  };
  const std::string dropout = fmt::format(
      "    - dropout: {}\n", bert.classifier_dropout ? fmt::to_string(*bert.classifier_dropout) : "$dropout");
  const Activation function = pooler_activation(bert.family);
  const std::string pooler = fmt::format(
      "{}    - pooler: {{{}kernel_initializer: {}}}\n", is_roberta(bert.family) ? dropout : "",
      function == Activation::kTanh ? "" : fmt::format("activation: {}, ", activation_text({function})),
      initializer);
  switch (bert.head) {
    case BertHead::kClassifier:
      return pooler + dropout + dense("classifier", "classes", bert.labels);
    case BertHead::kRegression:
      return pooler + dropout + dense("classifier", "targets", bert.labels);
    case BertHead::kTagger:
      return dropout + dense("classifier", "tags", bert.labels);
    case BertHead::kSpans:
      return (bert.answer_dropout > 0 ? fmt::format("    - dropout: {}\n", bert.answer_dropout) : "") +
             dense("qa_outputs", "span", 2);
    default:
      return fmt::format(
          "  transform: [dense: {{output: {{d_model: {}}}, activation: {}, kernel_initializer: {}}}, "
          "layer_norm]\n",
          bert.hidden, activation_text({transform_activation(bert)}), initializer);
  }
}

/// The layer of the types of tokens, if there is one.
std::string types_text(const BertConfig& bert, const std::string& initializer) {
  if (bert.family == BertFamily::kDistilBert) return {};
  return fmt::format("    - token_types: {{types: {}, {}initializer: {}}}\n", bert.token_types,
                     is_roberta(bert.family) ? "second_text: 0, " : "", initializer);
}

/// The parts of `model` of all encoders but a ModernBERT.
EncoderText encoder_text(const BertConfig& bert, const std::string& initializer) {
  return {
      .layers = fmt::format(
          R"({types}    - positions: {{type: learned, max_length: {positions}, stddev: {range}{first_position}}}
    - layer_norm
    - dropout: $dropout
    - transformer:
        num_layers: {layers}
        block: [SelfAttention, DenseReluDense]
        sublayers: {{initial: [], per_layer: [call_layer, dropout: $dropout, residual, layer_norm], final: []}}
)",
          fmt::arg("types", types_text(bert, initializer)), fmt::arg("positions", bert.max_positions),
          fmt::arg("range", bert.initializer_range),
          fmt::arg("first_position",
                   bert.first_position > 0 ? fmt::format(", first_position: {}", bert.first_position) : ""),
          fmt::arg("layers", bert.num_layers)),
      .head = head_text(bert, initializer),
      .defaults = fmt::format(
          R"(    layer_norm: {{epsilon: {epsilon}}}
    SelfAttention:
      {{num_heads: {heads}, key_value_size: {head_size}, bias: true, fold_scaling_into_initializer: false,
       dropout: $attention_dropout, kernel_initializer: {initializer}}}
    DenseReluDense: {{hidden_size: {intermediate}, activation: {activation}, bias: true, kernel_initializer: {initializer}}}
)",
          fmt::arg("epsilon", bert.epsilon), fmt::arg("heads", bert.num_heads),
          fmt::arg("head_size", bert.hidden / bert.num_heads), fmt::arg("initializer", initializer),
          fmt::arg("intermediate", bert.intermediate),
          fmt::arg("activation", activation_text({bert.activation})))};
}

/// The key of the optimizer without which Adam's steps of the embedding would be longer than PyTorch's.
std::string_view steps_of(const BertConfig& bert) {
  const bool scaled = bert.initializer_range * std::sqrt(static_cast<double>(bert.hidden)) > 1;
  return scaled ? ", scaled_steps: false" : "";
}

/// The value of checkpoint.init: weights that an encoder alone lacks are left as they are.
std::string init_of(const BertConfig& bert, const std::string& path) {
  if (!bert.without_head) return fmt::format("{{path: {}}}", quoted(path));
  return fmt::format("{{path: {}, exclude: [{}]}}", quoted(path),
                     bert.head == BertHead::kPretraining ? "predictions/, next_sentence/" : "predictions/");
}

}  // namespace

BertConfig bert_of(const Config& config) {
  return is_modern_bert(config.model) ? modern_bert_of(config) : BertReader(config).read();
}

std::string bert_yaml(const BertConfig& bert, const ModelSurroundings& around) {
  const std::string initializer =
      fmt::format("{{type: truncated_normal, stddev: {}}}", bert.initializer_range);
  const EncoderText text = bert.family == BertFamily::kModernBert ? modern_bert_text(bert, initializer)
                                                                  : encoder_text(bert, initializer);
  return fmt::format(
      R"({header}
# The {family} that mtf-convert has made of {source}
{usage}
vars: {{dropout: {dropout}, attention_dropout: {attention_dropout}}}
data:
  train: {data}
  vocabulary: {vocabulary}
  sequence_length: {length}
model:
  type: {type}
  layers:
    - embedding:
        output: {{d_model: {hidden}}}
        vocab_divisor: {rows}      # {rows} rows, whatever the vocabulary has
        embedding: {{type: vocab, scale_logits: false, initializer: {initializer}}}
{layers}{head}  layer_defaults:
{defaults}optimizer: {{type: adamw, weight_decay: 0.01, no_decay: [norm, bias], clip_norm: 1{steps}}}
learning_rate: 5e-5
train: {{steps: 10000, batch_size: 32}}
checkpoint: {{init: {init}}}
)",
      fmt::arg("header", kResolvedHeader), fmt::arg("family", name_of(bert.family)),
      fmt::arg("source", printable(around.source)),
      fmt::arg("usage", usage_comment(around, "data.train.path=FILE")), fmt::arg("dropout", bert.dropout),
      fmt::arg("attention_dropout", bert.attention_dropout), fmt::arg("data", data_of(bert)),
      fmt::arg("vocabulary", around.vocabulary), fmt::arg("length", length_of(bert)),
      fmt::arg("type", type_of(bert.head)), fmt::arg("hidden", bert.hidden),
      fmt::arg("rows", bert.vocab_size), fmt::arg("initializer", initializer),
      fmt::arg("layers", text.layers), fmt::arg("head", text.head), fmt::arg("defaults", text.defaults),
      fmt::arg("steps", steps_of(bert)), fmt::arg("init", init_of(bert, around.target.path)));
}

}  // namespace mtf
