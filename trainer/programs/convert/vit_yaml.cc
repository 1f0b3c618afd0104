// Converts a ViT to a configuration of this program and back.
#include <fmt/format.h>

#include <algorithm>

#include "engine/base/printable.h"
#include "layers/space/space.h"
#include "trainer/programs/convert/image_network.h"
#include "trainer/programs/convert/layer_options.h"
#include "trainer/programs/convert/model_layers.h"
#include "trainer/programs/convert/vit_config.h"

namespace mtf {
namespace {

using config::Node;

[[noreturn]] void not_vit(const Mark& mark, const std::string& what, const std::string& hint) {
  throw Error(ErrorKind::kConfig, mark, "the model is no ViT: " + what, hint);
}

/// The options of `patches` that determine what a ViT computes.
struct ConvertedPatches {
  static constexpr std::string_view shorthand = "size";
  PerDimension size = int64_t{16};
  std::string length = "length", patch = "patch";
};
void describe(config::Visitor& visit, ConvertedPatches& options) {
  visit("size", options.size, "");
  visit("length", options.length, "");
  visit("patch", options.patch, "");
}

struct ConvertedTake {
  std::string along;
  int64_t index = 0;
};
void describe(config::Visitor& visit, ConvertedTake& options) {
  visit("along", options.along, "");
  visit("index", options.index, "");
}

/// The layers of a ViT's model, from which its hyperparameters are read.
class VitReader {
 public:
  explicit VitReader(const Node& model) : model_(model), layers_(model) {}

  VitLayers read() {
    const Node* type = model_.find("type");
    require(type && type->text() == "classifier", model_.mark(),
            fmt::format("its type is {}", type ? type->text() : ""), "classifier");
    std::vector<ScopedLayer> list = without_layers_of_dropout();
    const bool pools = list.size() == 7 && list[5].entry.name == "pooler";
    expect(list, {"patches", "dense", "class_token", "positions", "transformer", pools ? "pooler" : "take",
                  "dense"});
    read_patches(list[0]);
    read_dense(list[1], false);
    const auto positions = options<ConvertedPositions>(list[3]);
    require(positions.type == Positions::kLearned && !positions.max_length && positions.first_position == 0,
            list[3].entry.mark, "its positions have no vector for each patch", "positions: learned");
    read_stack(list[4]);
    pools ? read_pooler(list[5]) : read_take(list[5]);
    read_dense(list[6], true);
    made_.scopes = {.patches = list[1].scope,
                    .class_token = list[2].scope,
                    .positions = list[3].scope,
                    .transformer = list[4].scope,
                    .pooler = pools ? list[5].scope : "",
                    .classifier = list[6].scope};
    return made_;
  }

 private:
  static void require(bool holds, const Mark& mark, const std::string& what, const std::string& right) {
    if (!holds) not_vit(mark, what, right);
  }

  template <class Options>
  Options options(const ScopedLayer& layer) const {
    return layers_.options<Options>(layer, not_vit);
  }

  std::vector<ScopedLayer> without_layers_of_dropout() const {
    std::vector<ScopedLayer> list = layers_.all();
    std::erase_if(list, [](const ScopedLayer& layer) { return layer.entry.name == "dropout"; });
    return list;
  }

  void expect(const std::vector<ScopedLayer>& list, const std::vector<std::string>& wanted) const {
    for (size_t i = 0; i < std::min(list.size(), wanted.size()); ++i)
      require(list[i].entry.name == wanted[i], list[i].entry.mark,
              fmt::format("here it has {}", list[i].entry.name), wanted[i]);
    require(list.size() == wanted.size(), model_.mark_of("layers"),
            fmt::format("it has {} layers beside dropout", list.size()),
            fmt::format("[{}]", fmt::join(wanted, ", ")));
  }

  void read_patches(const ScopedLayer& layer) {
    const auto patches = options<ConvertedPatches>(layer);
    made_.vit.patch = {number_for(patches.size, {"rows", 1}), number_for(patches.size, {"cols", 1})};
  }

  void read_dense(const ScopedLayer& layer, bool makes_classes) {
    const auto dense = options<ConvertedDense>(layer);
    require(dense.output.rank() == 1 && dense.bias && dense.activation == Activation::kLinear,
            layer.entry.mark, "a dense layer makes several dimensions, or has an activation or no bias",
            makes_classes ? "dense: {output: {classes: 10}}" : "dense: {output: {d_model: 768}}");
    if (const auto* normal = std::get_if<TruncatedNormalInitializer>(&dense.kernel_initializer);
        normal && normal->stddev < 1)
      made_.vit.initializer_range = normal->stddev;
  }

  void read_take(const ScopedLayer& layer) const {
    const auto take = options<ConvertedTake>(layer);
    require(take.along == "length" && take.index == 0, layer.entry.mark,
            "classes are not those of the class token", "take: {along: length}");
  }

  void read_pooler(const ScopedLayer& layer) {
    const auto pooler = options<ConvertedPooler>(layer);
    require(pooler.from == "first", layer.entry.mark, "its pooler is a mean", "pooler: first");
    require(!activation_name(pooler.activation).empty(), layer.entry.mark,
            "its pooler has another activation", "tanh");
    made_.vit.has_pooler = true;
    made_.vit.pooler_activation = pooler.activation;
  }

  void read_stack(const ScopedLayer& layer) {
    const auto stack = options<ConvertedStack>(layer);
    const Mark& mark = layer.entry.mark;
    require(!stack.causal, mark, "its patches do not see those behind them", "causal: false");
    require(stack.block_scope, mark, "`block_scope` is false", "block_scope: true");
    const SublayerLists& lists = stack.sublayers;
    require(lists.initial.is_list() && lists.per_layer.is_list() && lists.final.is_list(), mark,
            "its norms have no means and biases",
            "sublayers: {initial: [], per_layer: [layer_norm, call_layer, dropout, residual], final: "
            "[layer_norm]}");
    require_same_sublayers(lists, not_vit);
    double unused = 0;
    expect_layers(left_of(lists.initial, unused), {}, mark, "`sublayers.initial` is", not_vit);
    const std::vector<LayerEntry> around = left_of(lists.per_layer, made_.vit.dropout);
    expect_layers(around, {"layer_norm", "call_layer", "residual"}, mark, "`sublayers.per_layer` is",
                  not_vit);
    const std::vector<LayerEntry> last = left_of(lists.final, unused);
    expect_layers(last, {"layer_norm"}, mark, "`sublayers.final` is", not_vit);
    made_.vit.epsilon = options<ConvertedNorm>({around[0], ""}).epsilon;
    require(options<ConvertedNorm>({last[0], ""}).epsilon == made_.vit.epsilon, last[0].mark,
            "its norms have several `epsilon`",
            "one for all: `layer_defaults: {layer_norm: {epsilon: 1e-12}}`");
    made_.vit.num_layers = stack.num_layers;
    read_block(layer_entries(stack.block), stack.block.mark());
  }

  void read_block(const std::vector<LayerEntry>& block, const Mark& mark) {
    expect_layers(block, {"SelfAttention", "DenseReluDense"}, mark, "its block is", not_vit);
    const auto attention = options<ConvertedAttention>({block[0], ""});
    require_plain_attention(attention, block[0].mark, not_vit);
    require(attention.bias == AttentionBias::kAll, block[0].mark, "SelfAttention has no biases",
            "bias: true");
    made_.vit.num_heads = attention.num_heads;
    made_.vit.hidden = attention.num_heads * attention.key_value_size;
    made_.vit.attention_dropout = attention.dropout;
    const auto feed_forward = options<ConvertedFeedForward>({block[1], ""});
    require(feed_forward.bias, block[1].mark, "DenseReluDense has no biases", "bias: true");
    require(feed_forward.activation.size() == 1 && !activation_name(feed_forward.activation[0]).empty(),
            block[1].mark,
            fmt::format("DenseReluDense has the activation {}", activation_text(feed_forward.activation)),
            "gelu_erf, gelu, relu, swish or tanh");
    made_.vit.intermediate = feed_forward.hidden_size;
    made_.vit.activation = feed_forward.activation[0];
  }

  std::vector<LayerEntry> left_of(const Node& list, double& rate) const {
    return without_dropout(list, model_.find("layer_defaults"), not_vit, rate);
  }

  const Node& model_;
  ModelLayers layers_;
  VitLayers made_;
};

}  // namespace

VitLayers vit_of(const Node& model) { return VitReader(model).read(); }

std::string vit_yaml(const VitConfig& vit, const ImageProcessor& processor, const ModelSurroundings& around) {
  const std::string initializer =
      fmt::format("{{type: truncated_normal, stddev: {}}}", vit.initializer_range);
  const std::string pool = vit.has_pooler
                               ? fmt::format("{{pooler: {{activation: {}, kernel_initializer: {}}}}}",
                                             activation_text({vit.pooler_activation}), initializer)
                               : "{take: {along: length}}";
  return fmt::format(
      R"({header}
# A ViT that mtf-convert has made of {source}
{usage}
vars: {{classes: {classes}, dropout: {dropout}, attention_dropout: {attention_dropout}}}
data:
{data}model:
  type: classifier
  layers:
    - patches: {{size: {{rows: {patch_rows}, cols: {patch_cols}}}}}
    - dense: {{name: embedding, output: {{d_model: {hidden}}}, kernel_initializer: {initializer}}}
    - class_token
    - positions: {{type: learned, stddev: {range}}}
    - dropout: $dropout
    - transformer:
        num_layers: {layers}
        block: [SelfAttention, DenseReluDense]
        sublayers: {{initial: [], per_layer: [layer_norm, call_layer, dropout: $dropout, residual], final: [layer_norm]}}
    - {pool}
    - dense: {{name: logits, output: {{classes: $classes}}, kernel_initializer: {initializer}}}
  layer_defaults:
    layer_norm: {{epsilon: {epsilon}}}
    SelfAttention:
      {{num_heads: {heads}, key_value_size: {head_size}, bias: true, fold_scaling_into_initializer: false,
       dropout: $attention_dropout, kernel_initializer: {initializer}}}
    DenseReluDense: {{hidden_size: {intermediate}, activation: {activation}, bias: true, kernel_initializer: {initializer}}}
optimizer: {{type: adamw, weight_decay: 0.01, no_decay: [norm, bias], clip_norm: 1}}
learning_rate: 5e-5
train: {{steps: 10000, batch_size: 32}}
checkpoint: {{init: {init}}}
)",
      fmt::arg("header", kResolvedHeader), fmt::arg("source", printable(around.source)),
      fmt::arg("usage", usage_comment(around, "data.train.path=FOLDER")), fmt::arg("classes", vit.labels),
      fmt::arg("dropout", vit.dropout), fmt::arg("attention_dropout", vit.attention_dropout),
      fmt::arg("data", image_data_yaml(processor, vit.channels)), fmt::arg("patch_rows", vit.patch.rows),
      fmt::arg("patch_cols", vit.patch.cols), fmt::arg("hidden", vit.hidden),
      fmt::arg("initializer", initializer), fmt::arg("range", vit.initializer_range),
      fmt::arg("layers", vit.num_layers), fmt::arg("pool", pool), fmt::arg("epsilon", vit.epsilon),
      fmt::arg("heads", vit.num_heads), fmt::arg("head_size", vit.hidden / vit.num_heads),
      fmt::arg("intermediate", vit.intermediate), fmt::arg("activation", activation_text({vit.activation})),
      fmt::arg("init", image_init(around.target.path, vit.without_head)));
}

}  // namespace mtf
