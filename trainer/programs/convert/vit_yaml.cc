// Converts a ViT or a DINOv2 to a configuration of this program and back.
#include <fmt/format.h>

#include <algorithm>

#include "engine/base/printable.h"
#include "layers/space/space.h"
#include "trainer/programs/convert/image_layers.h"
#include "trainer/programs/convert/image_network.h"
#include "trainer/programs/convert/layer_options.h"
#include "trainer/programs/convert/model_layers.h"
#include "trainer/programs/convert/vit_config.h"

namespace mtf {
namespace {

using config::Node;

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

struct ConvertedRegisters {
  static constexpr std::string_view shorthand = "count";
  int64_t count = 4;
  double stddev = 0.02;
};
void describe(config::Visitor& visit, ConvertedRegisters& options) {
  visit("count", options.count, "");
  visit("stddev", options.stddev, "");
}

/// The options of `branches`.
struct ConvertedBranches {
  std::string along;
  Node paths;
};
void describe(config::Visitor& visit, ConvertedBranches& options) {
  visit("along", options.along, "");
  visit("paths", options.paths, "");
}

struct ConvertedSlice {
  std::string along;
  int64_t begin = 0;
  std::optional<int64_t> end;
};
void describe(config::Visitor& visit, ConvertedSlice& options) {
  visit("along", options.along, "");
  visit("begin", options.begin, "");
  visit("end", options.end, "");
}

struct ConvertedMean {
  static constexpr std::string_view shorthand = "over";
  std::vector<std::string> over;
};
void describe(config::Visitor& visit, ConvertedMean& options) { visit("over", options.over, ""); }

/// The layers of a ViT's model, from which its hyperparameters are read.
class VitReader {
 public:
  VitReader(const Node& model, VitKind kind)
      : model_(model),
        layers_(model),
        is_dinov2_(kind == VitKind::kDinov2),
        refuse_([kind](const Mark& mark, const std::string& what, const std::string& hint) {
          throw Error(ErrorKind::kConfig, mark, fmt::format("the model is no {}: {}", title_of(kind), what),
                      hint);
        }) {
    made_.vit.kind = kind;
  }

  VitLayers read() {
    const Node* type = model_.find("type");
    require(type && type->text() == "classifier", model_.mark(),
            fmt::format("its type is {}", type ? type->text() : ""), "classifier");
    std::vector<ScopedLayer> list = without_layers_of_dropout();
    const auto has = [&list](size_t i, std::string_view name) {
      return i < list.size() && list[i].entry.name == name;
    };
    const bool has_registers = is_dinov2_ && has(4, "register_tokens"),
               pools = !is_dinov2_ && has(5, "pooler");
    std::vector<std::string> wanted = {"patches", "dense", "class_token", "positions"};
    if (has_registers) wanted.push_back("register_tokens");
    const size_t stack = wanted.size();
    wanted.insert(wanted.end(), {"transformer",
                                 is_dinov2_ ? "branches"
                                 : pools    ? "pooler"
                                            : "take",
                                 "dense"});
    expect(list, wanted);
    read_patches(list[0]);
    read_dense(list[1], false);
    const auto positions = options<ConvertedPositions>(list[3]);
    require(positions.type == Positions::kLearned && !positions.max_length && positions.first_position == 0,
            list[3].entry.mark, "its positions have no vector for each patch", "positions: learned");
    if (has_registers) made_.vit.registers = options<ConvertedRegisters>(list[4]).count;
    read_stack(list[stack]);
    const ScopedLayer& pool = list[stack + 1];
    is_dinov2_ ? read_branches(pool) : pools ? read_pooler(pool) : read_take(pool, 0);
    read_dense(list[stack + 2], true);
    made_.scopes = {.patches = list[1].scope,
                    .class_token = list[2].scope,
                    .positions = list[3].scope,
                    .registers = has_registers ? list[4].scope : "",
                    .transformer = list[stack].scope,
                    .pooler = pools ? pool.scope : "",
                    .classifier = list[stack + 2].scope};
    return made_;
  }

 private:
  void require(bool holds, const Mark& mark, const std::string& what, const std::string& right) const {
    if (!holds) refuse_(mark, what, right);
  }

  template <class Options>
  Options options(const ScopedLayer& layer) const {
    return layers_.options<Options>(layer, refuse_);
  }

  std::vector<ScopedLayer> without_layers_of_dropout() {
    std::vector<ScopedLayer> list = layers_.all();
    std::erase_if(list, [this](const ScopedLayer& layer) {
      if (layer.entry.name != "dropout") return false;
      if (is_dinov2_) made_.vit.dropout = options<ConvertedDropout>(layer).rate;
      return true;
    });
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

  void read_take(const ScopedLayer& layer, int64_t index) const {
    const auto take = options<ConvertedTake>(layer);
    require(take.along == "length" && take.index == index, layer.entry.mark,
            "classes are not those of the class token",
            index > 0 ? fmt::format("take: {{along: length, index: {}}}", index) : "take: {along: length}");
  }

  /// Reads the class token, joined with the mean of the patches behind it.
  void read_branches(const ScopedLayer& layer) const {
    const int64_t token = made_.vit.registers;
    const auto branches = options<ConvertedBranches>(layer);
    const auto require_right = [&](bool holds) {
      require(holds, layer.entry.mark, "classes are not those of the class token and the mean of the patches",
              fmt::format("branches: {{along: .., paths: [[take: {{along: length, index: {}}}, ..], "
                          "[slice: {{along: length, begin: {}}}, mean: length, ..]]}}",
                          token, token + 1));
    };
    require_right(branches.paths.is_list() && branches.paths.elements().size() == 2);
    std::vector<ScopedLayer> first = layers_.of(branches.paths.elements()[0], layer.scope),
                             second = layers_.of(branches.paths.elements()[1], layer.scope);
    for (std::vector<ScopedLayer>* path : {&first, &second})
      std::erase_if(*path, [](const ScopedLayer& step) { return step.entry.name == "rename"; });
    require_right(first.size() == 1 && first[0].entry.name == "take");
    require_right(second.size() == 2 && second[0].entry.name == "slice" && second[1].entry.name == "mean");
    read_take(first[0], token);
    const auto slice = options<ConvertedSlice>(second[0]);
    require_right(slice.along == "length" && slice.begin == token + 1 && !slice.end &&
                  options<ConvertedMean>(second[1]).over == std::vector<std::string>{"length"});
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
    require_same_sublayers(lists, refuse_);
    double unused = 0;
    expect_layers(left_of(lists.initial, unused), {}, mark, "`sublayers.initial` is", refuse_);
    const std::vector<LayerEntry> around = left_of(lists.per_layer, is_dinov2_ ? unused : made_.vit.dropout);
    std::vector<std::string> wanted = {"layer_norm", "call_layer", "residual"};
    if (is_dinov2_) wanted.insert(wanted.end() - 1, "layer_scale");
    expect_layers(around, wanted, mark, "`sublayers.per_layer` is", refuse_);
    if (is_dinov2_) {
      const auto scale = options<ConvertedLayerScale>({around[2], ""});
      require(scale.over.empty(), around[2].mark, "its layer_scale has `over`", "layer_scale: 1");
      made_.vit.layer_scale = scale.initial_value;
      made_.vit.drop = options<ConvertedResidual>({around[3], ""}).drop;
    }
    const std::vector<LayerEntry> last = left_of(lists.final, unused);
    expect_layers(last, {"layer_norm"}, mark, "`sublayers.final` is", refuse_);
    made_.vit.epsilon = options<ConvertedNorm>({around[0], ""}).epsilon;
    require(options<ConvertedNorm>({last[0], ""}).epsilon == made_.vit.epsilon, last[0].mark,
            "its norms have several `epsilon`",
            "one for all: `layer_defaults: {layer_norm: {epsilon: 1e-12}}`");
    made_.vit.num_layers = stack.num_layers;
    read_block(layer_entries(stack.block), stack.block.mark());
  }

  void read_block(const std::vector<LayerEntry>& block, const Mark& mark) {
    expect_layers(block, {"SelfAttention", "DenseReluDense"}, mark, "its block is", refuse_);
    const auto attention = options<ConvertedAttention>({block[0], ""});
    require_plain_attention(attention, block[0].mark, refuse_);
    require(attention.bias == AttentionBias::kAll, block[0].mark, "SelfAttention has no biases",
            "bias: true");
    made_.vit.num_heads = attention.num_heads;
    made_.vit.hidden = attention.num_heads * attention.key_value_size;
    made_.vit.attention_dropout = attention.dropout;
    const auto feed_forward = options<ConvertedFeedForward>({block[1], ""});
    require(feed_forward.bias, block[1].mark, "DenseReluDense has no biases", "bias: true");
    const std::vector<Activation>& activation = feed_forward.activation;
    made_.vit.is_gated = is_dinov2_ && activation == std::vector{Activation::kSwish, Activation::kLinear};
    require(made_.vit.is_gated || (activation.size() == 1 && !activation_name(activation[0]).empty()),
            block[1].mark, fmt::format("DenseReluDense has the activation {}", activation_text(activation)),
            fmt::format("gelu_erf, gelu, relu, swish or tanh{}", is_dinov2_ ? ", or [swish, linear]" : ""));
    made_.vit.intermediate = feed_forward.hidden_size;
    made_.vit.activation = activation[0];
  }

  std::vector<LayerEntry> left_of(const Node& list, double& rate) const {
    return without_dropout(list, model_.find("layer_defaults"), refuse_, rate);
  }

  const Node& model_;
  ModelLayers layers_;
  bool is_dinov2_;
  RefuseLayer refuse_;
  VitLayers made_;
};

/// The layers between positions and Transformer.
std::string before_stack_yaml(const VitConfig& vit) {
  const std::string registers =
      vit.registers > 0 ? fmt::format("    - register_tokens: {}\n", vit.registers) : "";
  return registers + "    - dropout: $dropout\n";
}

/// The layer that makes one vector of those of a text.
std::string pool_yaml(const VitConfig& vit, const std::string& initializer) {
  if (vit.kind == VitKind::kDinov2)
    return fmt::format(R"(branches:  # the name `features` leaves `d_model` to layouts
        along: features
        paths:
          - [take: {{along: length, index: {}}}, rename: {{from: d_model, to: features}}]
          - [slice: {{along: length, begin: {}}}, mean: length, rename: {{from: d_model, to: features}}])",
                       vit.registers, vit.registers + 1);
  if (!vit.has_pooler) return "{take: {along: length}}";
  return fmt::format("{{pooler: {{activation: {}, kernel_initializer: {}}}}}",
                     activation_text({vit.pooler_activation}), initializer);
}

/// The sublayers of each layer of the Transformer.
std::string per_layer_yaml(const VitConfig& vit) {
  if (vit.kind == VitKind::kVit) return "[layer_norm, call_layer, dropout: $dropout, residual]";
  return fmt::format("[layer_norm, call_layer, layer_scale: {}, residual: {{drop: $drop}}]", vit.layer_scale);
}

}  // namespace

VitLayers vit_of(const Node& model, VitKind kind) { return VitReader(model, kind).read(); }

std::string vit_yaml(const VitConfig& vit, const ImageProcessor& processor, const ModelSurroundings& around) {
  const std::string initializer =
      fmt::format("{{type: truncated_normal, stddev: {}}}", vit.initializer_range);
  const bool is_dinov2 = vit.kind == VitKind::kDinov2;
  const std::vector<Activation> activation =
      vit.is_gated ? std::vector{vit.activation, Activation::kLinear} : std::vector{vit.activation};
  return fmt::format(
      R"({header}
# A {title} that mtf-convert has made of {source}
{usage}
vars: {{classes: {classes}, dropout: {dropout}, attention_dropout: {attention_dropout}{drop}}}
data:
{data}model:
  type: classifier
  layers:
    - patches: {{size: {{rows: {patch_rows}, cols: {patch_cols}}}}}
    - dense: {{name: embedding, output: {{d_model: {hidden}}}, kernel_initializer: {initializer}}}
    - class_token
    - positions: {{type: learned, stddev: {range}}}
{before}    - transformer:
        num_layers: {layers}
        block: [SelfAttention, DenseReluDense]
        sublayers: {{initial: [], per_layer: {per_layer}, final: [layer_norm]}}
    - {pool}
    - dense: {{name: logits, output: {{classes: $classes}}, kernel_initializer: {initializer}}}
  layer_defaults:
    layer_norm: {{epsilon: {epsilon}}}
    SelfAttention:
      {{num_heads: {heads}, key_value_size: {head_size}, bias: true, fold_scaling_into_initializer: false,
       dropout: $attention_dropout, kernel_initializer: {initializer}}}
    DenseReluDense: {{hidden_size: {intermediate}, activation: {activation}, bias: true, kernel_initializer: {initializer}}}
optimizer: {{type: adamw, weight_decay: 0.01, no_decay: [norm, bias{no_decay}], clip_norm: 1}}
learning_rate: 5e-5
train: {{steps: 10000, batch_size: 32}}
checkpoint: {{init: {init}}}
)",
      fmt::arg("header", kResolvedHeader), fmt::arg("title", title_of(vit.kind)),
      fmt::arg("source", printable(around.source)),
      fmt::arg("usage", usage_comment(around, "data.train.path=FOLDER")), fmt::arg("classes", vit.labels),
      fmt::arg("dropout", vit.dropout), fmt::arg("attention_dropout", vit.attention_dropout),
      fmt::arg("data", image_data_yaml(processor, vit.channels)), fmt::arg("patch_rows", vit.patch.rows),
      fmt::arg("patch_cols", vit.patch.cols), fmt::arg("hidden", vit.hidden),
      fmt::arg("initializer", initializer), fmt::arg("range", vit.initializer_range),
      fmt::arg("layers", vit.num_layers), fmt::arg("pool", pool_yaml(vit, initializer)),
      fmt::arg("before", before_stack_yaml(vit)), fmt::arg("per_layer", per_layer_yaml(vit)),
      fmt::arg("drop", is_dinov2 ? fmt::format(", drop: {}", vit.drop) : ""),
      fmt::arg("no_decay", is_dinov2 ? ", layer_scale" : ""), fmt::arg("epsilon", vit.epsilon),
      fmt::arg("heads", vit.num_heads), fmt::arg("head_size", vit.hidden / vit.num_heads),
      fmt::arg("intermediate", vit.intermediate), fmt::arg("activation", activation_text(activation)),
      fmt::arg("init", image_init(around.target.path, vit.without_head)));
}

}  // namespace mtf
