// Converts a ModernBERT to a configuration of this program and back.
#include <fmt/format.h>

#include <algorithm>

#include "layers/rotary.h"
#include "trainer/programs/convert/layer_types.h"
#include "trainer/programs/convert/modern_bert.h"

namespace mtf {
namespace {

using config::Node;

constexpr std::string_view kEncoderAttention = "SelfAttention", kLocalEncoderAttention = "LocalSelfAttention",
                           kEncoderUnits = "DenseReluDense";
/// The layers before the last one.
constexpr const char *kHeadDense = "head", *kHeadNorm = "head_norm";

/// What the layers of attention share.
struct EncoderAttention : HeadOptions, RotaryOptions {};
void describe(config::Visitor& visit, EncoderAttention& options) {
  describe(visit, static_cast<HeadOptions&>(options));
  describe_rotary(visit, options);
}

struct LocalEncoderAttention : EncoderAttention {
  int64_t radius = 128;
  bool symmetric = false;
};
void describe(config::Visitor& visit, LocalEncoderAttention& options) {
  describe(visit, static_cast<EncoderAttention&>(options));
  visit("radius", options.radius, "");
  visit("symmetric", options.symmetric, "");
}

struct EncoderNorm : ConvertedNorm {
  bool bias = true;
  std::string name;
};
void describe(config::Visitor& visit, EncoderNorm& options) {
  describe(visit, static_cast<ConvertedNorm&>(options));
  visit("bias", options.bias, "");
  visit("name", options.name, "");
}

struct EncoderPooler : ConvertedPooler {
  bool bias = true;
};
void describe(config::Visitor& visit, EncoderPooler& options) {
  describe(visit, static_cast<ConvertedPooler&>(options));
  visit("bias", options.bias, "");
}

/// The layers of a ModernBERT's model, from which its hyperparameters are read.
class ModernBertReader : public BertLayersReader {
 public:
  explicit ModernBertReader(const Config& config) : BertLayersReader(config, "ModernBERT") {
    bert_.family = BertFamily::kModernBert;
    set_modern_bert_defaults(bert_);
  }

  BertConfig read() {
    read_head();
    read_list();
    modern_.embedding_dropout = dropout_at(2);
    const bool has_head = bert_.head != BertHead::kMaskedLm;
    if (has_head) bert_.classifier_dropout = dropout_before_last();
    leave_dropout_out();
    std::vector<std::string> wanted = {"embedding", "layer_norm", "transformer"};
    if (has_head)
      wanted.insert(wanted.end(), {is_of_texts(bert_.head) ? "pooler" : "dense", "layer_norm", "dense"});
    expect_names(list_, wanted, list_mark_, "its layers are");
    read_embedding(list_[0], has_head);
    add_norm(list_[1], "");
    read_stack(layer<ConvertedStack>(list_[2]), list_[2].mark);
    if (is_of_texts(bert_.head)) {
      read_pooler(list_[3]);
    } else {
      read_dense_head();
    }
    return bert_;
  }

 private:
  void add_norm(const LayerEntry& entry, const std::string& name) {
    const auto norm = layer<EncoderNorm>(entry);
    require(!norm.bias, entry.mark, "its norms have biases", "`layer_defaults: {layer_norm: {bias: false}}`");
    require(norm.name == name, entry.mark, fmt::format("a norm has the name `{}`", norm.name),
            name.empty() ? "no `name`" : "name: " + name);
    add_epsilon(norm.epsilon, entry.mark);
  }

  void read_pooler(const LayerEntry& entry) {
    const auto pooler = layer<EncoderPooler>(entry);
    require(!pooler.bias, entry.mark, "its pooler has a bias", "bias: false");
    modern_.pools_mean = pooler.from == "mean";
    set_head_activation(pooler.activation, entry.mark);
    add_norm(list_[4], kHeadNorm);
  }

  /// The dense layer and the norm before the last layer, or before the logits of hidden tokens.
  void read_dense_head() {
    const Node* transform = model_.find("transform");
    const bool is_masked_lm = bert_.head == BertHead::kMaskedLm;
    require(transform || !is_masked_lm, mark_, "it has the usual layers of `transform`",
            "a list `transform` of layers without biases");
    std::vector<LayerEntry> head = is_masked_lm
                                       ? layer_entries(*transform)
                                       : std::vector<LayerEntry>(list_.begin() + 3, list_.begin() + 5);
    if (is_masked_lm) expect_names(head, {"dense", "layer_norm"}, transform->mark(), "`transform` is");
    const auto dense = layer<ConvertedDense>(head[0]);
    const std::string name = is_masked_lm ? "" : kHeadDense;
    require(!dense.bias, head[0].mark, "the dense layer before the last one has a bias", "bias: false");
    require(dense.name == name, head[0].mark, fmt::format("a dense layer has the name `{}`", dense.name),
            name.empty() ? "no `name`" : "name: " + name);
    set_head_activation(dense.activation, head[0].mark);
    add_norm(head[1], is_masked_lm ? "" : kHeadNorm);
  }

  void set_head_activation(Activation activation, const Mark& mark) {
    require_known(activation, mark, "the dense layer before the last one");
    modern_.head_activation = activation;
  }

  void require_known(Activation activation, const Mark& mark, std::string_view of) const {
    require(!activation_name(activation).empty(), mark,
            fmt::format("{} has the activation {}", of, activation_text({activation})),
            "gelu_erf, gelu, relu, swish or tanh");
  }

  void read_stack(const ConvertedStack& stack, const Mark& mark) {
    require(!stack.causal, mark, "its tokens do not see those behind them", "causal: false");
    require(stack.block_scope, mark, "`block_scope` is false", "block_scope: true");
    const SublayerLists& lists = stack.sublayers;
    require(lists.initial.is_list() && lists.first.is_list() && lists.per_layer.is_list() &&
                lists.final.is_list(),
            mark, "it has no norm before each layer but the first one",
            "sublayers: {initial: [], first: [call_layer, residual], per_layer: [layer_norm, call_layer, "
            "residual], final: [layer_norm]}");
    const auto read = [&](const Node& list, const std::vector<std::string>& wanted, const char* name) {
      const std::vector<LayerEntry> layers = layer_entries(list);
      expect_names(layers, wanted, list.mark(), fmt::format("`sublayers.{}` is", name));
      if (!wanted.empty() && wanted[0] == "layer_norm") add_norm(layers[0], "");
    };
    read(lists.initial, {}, "initial");
    read(lists.first, {"call_layer", "residual"}, "first");
    read(lists.per_layer, {"layer_norm", "call_layer", "residual"}, "per_layer");
    read(lists.final, {"layer_norm"}, "final");
    read_block(layer_entries(stack.block), stack.block.mark());
    bert_.num_layers = stack.num_layers * modern_.pattern();
    reduce_to_pattern(modern_.local);
  }

  void read_block(const std::vector<LayerEntry>& block, const Mark& mark) {
    std::vector<std::string> wanted;
    modern_.local.clear();
    for (size_t i = 0; i < std::max<size_t>(block.size(), 1); i += 2) {
      modern_.local.push_back(i < block.size() && block[i].name == kLocalEncoderAttention);
      wanted.emplace_back(modern_.local.back() ? kLocalEncoderAttention : kEncoderAttention);
      wanted.emplace_back(kEncoderUnits);
    }
    expect_names(block, wanted, mark, "its block is");
    for (size_t i = 0; i < block.size(); i += 2) {
      if (modern_.local[i / 2]) {
        read_local(layer<LocalEncoderAttention>(block[i]), block[i].mark);
      } else {
        const auto options = layer<EncoderAttention>(block[i]);
        read_attention(options, block[i].mark);
        set_same(rotary_base_, options.rotary_base, block[i].mark, "`rotary_base` of SelfAttention");
        modern_.rotary_base = options.rotary_base;
      }
      read_units(layer<ConvertedFeedForward>(block[i + 1]), block[i + 1].mark);
    }
  }

  void read_local(const LocalEncoderAttention& options, const Mark& mark) {
    require(options.symmetric && options.radius > 1, mark,
            "later tokens are not seen as far as earlier ones, or none are seen",
            "symmetric: true, and a `radius` of 2 or more");
    read_attention(options, mark);
    set_same(window_, options.radius - 1, mark, "`radius`");
    set_same(local_rotary_base_, options.rotary_base, mark, "`rotary_base` of LocalSelfAttention");
    modern_.window = options.radius - 1;
    modern_.local_rotary_base = options.rotary_base;
  }

  void read_attention(const EncoderAttention& options, const Mark& mark) {
    require_plain_attention(options, mark, refusal());
    require(options.bias == AttentionBias::kNone, mark, "its attention has biases", "bias: false");
    require(options.rotary && !options.rotary_size && !options.rotary_scaling, mark,
            "its attention has other positions", "`rotary: true` without `rotary_size` and `rotary_scaling`");
    set_same(heads_, options.num_heads, mark, "`num_heads`");
    set_same(attention_dropout_, options.dropout, mark, "`dropout` of attention");
    bert_.num_heads = options.num_heads;
    bert_.attention_dropout = options.dropout;
  }

  void read_units(const ConvertedFeedForward& options, const Mark& mark) {
    require(!options.bias, mark, "DenseReluDense has biases", "bias: false");
    require(options.activation.size() == 2 && options.activation[1] == Activation::kLinear, mark,
            fmt::format("DenseReluDense has the activation {}", activation_text(options.activation)),
            "two that are multiplied: [gelu_erf, linear]");
    require_known(options.activation[0], mark, kEncoderUnits);
    set_same(activation_, options.activation[0], mark, "`activation`");
    set_same(intermediate_, options.hidden_size, mark, "`hidden_size`");
    set_same(dropout_, options.dropout, mark, "`dropout` of DenseReluDense");
    bert_.activation = options.activation[0];
    bert_.intermediate = options.hidden_size;
    bert_.dropout = options.dropout;
  }

  /// Refuses a value that differs from that of another layer.
  template <class Value>
  void set_same(std::optional<Value>& known, const Value& value, const Mark& mark,
                std::string_view what) const {
    require(!known || *known == value, mark, fmt::format("its layers have several values of {}", what),
            "one for all, as in `layer_defaults`");
    known = value;
  }

  ModernBertOptions& modern_ = bert_.modern;
  std::optional<int64_t> heads_, window_, intermediate_;
  std::optional<double> rotary_base_, local_rotary_base_, attention_dropout_, dropout_;
  std::optional<Activation> activation_;
};

/// What follows the layers of the encoder.
std::string modern_head_text(const BertConfig& bert, const std::string& initializer) {
  const std::string activation = activation_text({bert.modern.head_activation});
  if (bert.head == BertHead::kMaskedLm)
    return fmt::format(
        "  transform: [dense: {{output: {{d_model: {}}}, activation: {}, bias: false, kernel_initializer: "
        "{}}}, "
        "layer_norm]\n",
        bert.hidden, activation, initializer);
  const auto last = [&](std::string_view name, std::string_view output, int64_t size) {
    return fmt::format(
        "    - layer_norm: {{name: {}}}\n    - dropout: {}\n    - dense: {{name: {}, output: {{{}: {}}}, "
        "kernel_initializer: {}}}\n",
        kHeadNorm, bert.classifier_dropout.value_or(0), name, output, size, initializer);
  };
  const std::string pooler = fmt::format(
                        "    - pooler: {{from: {}, activation: {}, bias: false, kernel_initializer: {}}}\n",
                        bert.modern.pools_mean ? "mean" : "first", activation, initializer),
                    dense = fmt::format(
                        "    - dense: {{name: {}, output: {{d_model: {}}}, activation: {}, bias: false, "
                        "kernel_initializer: {}}}\n",
                        kHeadDense, bert.hidden, activation, initializer);
  switch (bert.head) {
    case BertHead::kClassifier:
      return pooler + last("classifier", "classes", bert.labels);
    case BertHead::kRegression:
      return pooler + last("classifier", "targets", bert.labels);
    case BertHead::kTagger:
      return dense + last("classifier", "tags", bert.labels);
    default:
      return dense + last("qa_outputs", "span", 2);
  }
}

/// The entry of `layer_defaults` for one kind of attention.
std::string modern_attention_text(const BertConfig& bert, bool local, const std::string& initializer) {
  const ModernBertOptions& modern = bert.modern;
  return fmt::format(
      "    {}:\n"
      "      {{{}num_heads: {}, key_value_size: {}, fold_scaling_into_initializer: false, rotary: true,\n"
      "       rotary_base: {}, dropout: $attention_dropout, kernel_initializer: {}}}\n",
      local ? kLocalEncoderAttention : kEncoderAttention,
      local ? fmt::format("radius: {}, symmetric: true, ", modern.window + 1) : "", bert.num_heads,
      bert.hidden / bert.num_heads, local ? modern.local_rotary_base : modern.rotary_base, initializer);
}

}  // namespace

bool is_modern_bert(const config::Node& model) {
  const Node* layers = model.find("layers");
  if (!layers || !layers->is_list()) return false;
  bool has_transformer = false;
  for (const LayerEntry& entry : layer_entries(*layers)) {
    if (entry.name == "positions" || entry.name == "token_types") return false;
    has_transformer = has_transformer || entry.name == "transformer";
  }
  return has_transformer;
}

BertConfig modern_bert_of(const Config& config) { return ModernBertReader(config).read(); }

EncoderText modern_bert_text(const BertConfig& bert, const std::string& initializer) {
  const ModernBertOptions& modern = bert.modern;
  std::vector<std::string> block;
  std::string attention;
  for (const bool local : modern.local)
    block.push_back(fmt::format("{}, {}", local ? kLocalEncoderAttention : kEncoderAttention, kEncoderUnits));
  for (const bool local : {false, true}) {
    if (std::ranges::find(modern.local, local) != modern.local.end())
      attention += modern_attention_text(bert, local, initializer);
  }
  return {
      .layers = fmt::format(
          R"(    - layer_norm
    - dropout: {}
    - transformer:
        num_layers: {}
        block: [{}]
        sublayers:
          {{initial: [], first: [call_layer, residual], per_layer: [layer_norm, call_layer, residual], final: [layer_norm]}}
)",
          modern.embedding_dropout == bert.dropout ? "$dropout" : fmt::to_string(modern.embedding_dropout),
          bert.num_layers / modern.pattern(), fmt::join(block, ", ")),
      .head = modern_head_text(bert, initializer),
      .defaults = fmt::format(
          R"(    layer_norm: {{epsilon: {}, bias: false}}
{}    {}: {{hidden_size: {}, activation: {}, dropout: $dropout, kernel_initializer: {}}}
)",
          bert.epsilon, attention, kEncoderUnits, bert.intermediate,
          activation_text({bert.activation, Activation::kLinear}), initializer)};
}

}  // namespace mtf
