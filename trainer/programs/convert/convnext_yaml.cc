// Converts a ConvNeXt to a configuration of this program and back.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/base/printable.h"
#include "trainer/programs/convert/convnext_config.h"
#include "trainer/programs/convert/image_layers.h"
#include "trainer/programs/convert/image_network.h"
#include "trainer/programs/convert/layer_options.h"
#include "trainer/programs/convert/model_layers.h"

namespace mtf {
namespace {

using config::Node;

/// `transformers` has it in all norms but the last one.
constexpr double kInnerEpsilon = 1e-6;
constexpr int64_t kDepthwiseWindow = 7;

[[noreturn]] void not_convnext(const Mark& mark, const std::string& what, const std::string& hint) {
  throw Error(ErrorKind::kConfig, mark, "the model is no ConvNeXt: " + what, hint);
}

/// The layers of a ConvNeXt's model, from which its hyperparameters are read.
class ConvNextReader {
 public:
  explicit ConvNextReader(const Node& model) : model_(model), layers_(model) {}

  ConvNextLayers read() {
    const Node* type = model_.find("type");
    require(type && type->text() == "classifier", model_.mark(),
            fmt::format("its type is {}", type ? type->text() : ""), "classifier");
    left_ = layers_.all();
    std::erase_if(left_, [](const ScopedLayer& layer) { return layer.entry.name == "rename"; });
    made_.network.stages.clear();
    read_stem();
    while (has("residual") || has("layer_norm")) {
      if (has("layer_norm")) read_reduction();
      made_.stages.emplace_back();
      while (has("residual")) read_block();
      require(!made_.stages.back().empty(), mark_, "a stage has no `residual`", "residual, ...");
      made_.network.stages.push_back({filters_, std::ssize(made_.stages.back())});
    }
    require(!made_.stages.empty(), mark_, "it has no `residual`", "residual, ...");
    next("global_average_pool");
    made_.norm = norm(std::nullopt);
    read_classifier();
    require(left_.empty(), mark_, "layers follow the classes",
            "dense: {output: {classes: 10}} as the last layer");
    settle_drop();
    return made_;
  }

 private:
  static void require(bool holds, const Mark& mark, const std::string& what, const std::string& right) {
    if (!holds) not_convnext(mark, what, right);
  }

  template <class Options>
  Options options(const ScopedLayer& layer) const {
    return layers_.options<Options>(layer, not_convnext);
  }

  bool has(std::string_view kind) const { return !left_.empty() && left_.front().entry.name == kind; }

  /// Takes the next layer, which must be of this kind.
  ScopedLayer next(const std::string& kind) {
    const std::string found = left_.empty() ? "the end" : left_.front().entry.name;
    const Mark mark = left_.empty() ? mark_ : left_.front().entry.mark;
    require(has(kind), mark, fmt::format("here it has {}", found), kind);
    ScopedLayer layer = std::move(left_.front());
    left_.erase(left_.begin());
    mark_ = mark;
    return layer;
  }

  /// Takes a norm, of which the last one has an `epsilon` of its own, and returns its scope.
  std::string norm(std::optional<double> epsilon) {
    const ScopedLayer layer = next("layer_norm");
    const double own = options<ConvertedNorm>(layer).epsilon;
    require(!epsilon || own == *epsilon, mark_, "a norm has another `epsilon`", "epsilon: 1e-6");
    if (!epsilon) made_.network.epsilon = own;
    return layer.scope;
  }

  /// Takes a convolution whose windows do not overlap, and returns its scope and their size.
  std::pair<std::string, int64_t> convolution() {
    const ScopedLayer layer = next("conv2d");
    const auto options = this->options<ConvertedConvolution>(layer);
    const std::optional<int64_t> kernel = square(options.size), stride = square(options.stride);
    require(
        kernel && kernel == stride && square(options.dilation) == 1 && options.groups == 1 &&
            options.over.empty() && options.along.empty() && options.output.rank() == 1 && options.bias &&
            options.activation == Activation::kLinear && has_no_padding(options.padding),
        mark_, "a convolution differs",
        "conv2d: {output: {filters: 192}, kernel: 2, stride: 2, padding: 0}, with as large a `stride` as a "
        "`kernel`");
    filters_ = options.output[0].size;
    return {layer.scope, *kernel};
  }

  void read_stem() {
    const auto [scope, size] = convolution();
    made_.network.patch = size;
    made_.stem = {norm(kInnerEpsilon), scope};
  }

  void read_reduction() {
    const std::string norm = this->norm(kInnerEpsilon);
    const auto [scope, size] = convolution();
    require(size == 2 && !made_.stages.empty(), mark_, "an image is not halved between two stages",
            "kernel: 2, stride: 2");
    made_.reductions.push_back({norm, scope});
  }

  void read_block() {
    const ScopedLayer layer = next("residual");
    const auto residual = options<ConvertedResidual>(layer);
    require(residual.shortcut.is_null(), mark_, "a residual has a shortcut", "layers alone");
    drops_.push_back(residual.drop);
    std::vector<ScopedLayer> list = layers_.of(residual.layers, layer.scope);
    std::swap(left_, list);
    ConvNextBlock block;
    block.depthwise = depthwise();
    block.norm = norm(kInnerEpsilon);
    block.wi = dense(ConvNextConfig::widened(filters_), true);
    block.wo = dense(filters_, false);
    block.scale = scale();
    require(left_.empty(), mark_, "more layers are in a residual",
            "[depthwise_conv2d, layer_norm, dense, dense, layer_scale]");
    std::swap(left_, list);
    made_.stages.back().push_back(block);
  }

  std::string depthwise() {
    const ScopedLayer layer = next("depthwise_conv2d");
    const auto options = this->options<ConvertedConvolution>(layer);
    require(square(options.size) == kDepthwiseWindow && square(options.stride) == 1 &&
                square(options.dilation) == 1 && options.over.empty() && options.along.empty() &&
                options.bias && options.activation == Activation::kLinear &&
                has_half_padding(options.padding, kDepthwiseWindow, 1),
            mark_, "a depthwise convolution differs", "depthwise_conv2d: {kernel: 7, padding: 3}");
    return layer.scope;
  }

  std::string dense(int64_t width, bool is_first) {
    const ScopedLayer layer = next("dense");
    const auto dense = options<ConvertedDense>(layer);
    require(dense.output.rank() == 1 && dense.output[0].size == width && dense.bias, mark_,
            "a dense layer has another width or no bias", fmt::format("{} and bias: true", width));
    if (!is_first) {
      require(dense.activation == Activation::kLinear, mark_, "the second dense layer has an activation",
              "linear");
      return layer.scope;
    }
    require(!activation_name(dense.activation).empty(), mark_, "it has another activation", "gelu_erf");
    require(!has_activation_ || dense.activation == made_.network.activation, mark_,
            "blocks have several activations", "one for all");
    has_activation_ = true;
    made_.network.activation = dense.activation;
    return layer.scope;
  }

  /// The scope of the scales of a residual; empty where it has none.
  std::string scale() {
    const bool is_first = made_.stages.size() == 1 && made_.stages[0].empty(), scales = has("layer_scale");
    require(is_first || scales == (made_.network.layer_scale > 0), mark_,
            "some residuals have a layer_scale, and others none", "one in all");
    if (!scales) {
      made_.network.layer_scale = 0;
      return {};
    }
    const ScopedLayer layer = next("layer_scale");
    const auto options = this->options<ConvertedLayerScale>(layer);
    require(options.over.empty() && options.initial_value > 0, mark_, "a layer_scale differs",
            "layer_scale: 1e-6");
    made_.network.layer_scale = options.initial_value;
    return layer.scope;
  }

  void read_classifier() {
    const ScopedLayer layer = next("dense");
    const auto dense = options<ConvertedDense>(layer);
    require(dense.output.rank() == 1 && dense.bias && dense.activation == Activation::kLinear, mark_,
            "its last layer makes no classes, or has an activation or no bias",
            "dense: {output: {classes: 10}}");
    if (const auto* normal = std::get_if<TruncatedNormalInitializer>(&dense.kernel_initializer);
        normal && normal->stddev < 1)
      made_.network.initializer_range = normal->stddev;
    made_.classifier = layer.scope;
  }

  void settle_drop() {
    made_.network.drop = drops_.back();
    constexpr double kRounding = 1e-4;
    for (size_t i = 0; i < drops_.size(); ++i) {
      if (std::abs(drops_[i] - made_.network.drop_of(static_cast<int64_t>(i))) > kRounding)
        made_.drops_in_equal_steps = false;
    }
  }

  const Node& model_;
  ModelLayers layers_;
  std::vector<ScopedLayer> left_;  ///< layers that are to be read
  Mark mark_;                      ///< the place of the layer that was read last
  int64_t filters_ = 0;            ///< what the convolution before made
  bool has_activation_ = false;
  std::vector<double> drops_;
  ConvNextLayers made_;
};

std::string convnext_stages_yaml(const ConvNextConfig& network) {
  std::string text;
  int64_t block = 0;
  for (size_t i = 0; i < network.stages.size(); ++i) {
    const ConvNextStage& stage = network.stages[i];
    if (i > 0)
      text += fmt::format("    - block: {{name: stage_{}_first, use: reduce, filters: {}}}\n", i + 1,
                          stage.filters);
    for (int64_t b = 0; b < stage.depth; ++b)
      text += fmt::format(
          "    - block: {{name: stage_{}_{:03}, use: convnext, filters: {}, wide: {}, drop: {:.6g}}}\n",
          i + 1, b, stage.filters, ConvNextConfig::widened(stage.filters), network.drop_of(block++));
  }
  return text;
}

}  // namespace

ConvNextLayers convnext_of(const Node& model) { return ConvNextReader(model).read(); }

std::string convnext_yaml(const ConvNextConfig& network, const ImageProcessor& processor,
                          const ModelSurroundings& around) {
  return fmt::format(
      R"({header}
# A ConvNeXt that mtf-convert has made of {source}
{usage}
vars: {{classes: {classes}}}
data:
{data}model:
  type: classifier
  blocks:
    convnext:
      - residual:
          drop: $drop
          layers:
            - depthwise_conv2d: {{kernel: 7, padding: 3}}
            - layer_norm
            - dense: {{name: wi, output: {{hidden: $wide}}, activation: {activation}}}
            - dense: {{name: wo, output: {{filters: $filters}}}}
{scale}    reduce:
      - layer_norm
      - conv2d: {{output: {{filters: $filters}}, kernel: 2, stride: 2, padding: 0}}
  layers:
    - conv2d: {{name: stem, output: {{filters: {stem}}}, kernel: {patch}, stride: {patch}, padding: 0}}
    - layer_norm: {{name: stem_norm}}
{stages}    - global_average_pool
    - layer_norm: {{name: norm, epsilon: {epsilon}}}
    - dense: {{name: logits, output: {{classes: $classes}}}}
  layer_defaults:
    conv2d: {{kernel_initializer: {initializer}}}
    depthwise_conv2d: {{kernel_initializer: {initializer}}}
    dense: {{kernel_initializer: {initializer}}}
    layer_norm: {{epsilon: 1e-6}}
optimizer: {{type: adamw, weight_decay: 0.05, no_decay: [norm, bias, layer_scale], clip_norm: 1}}
learning_rate: 5e-5
train: {{steps: 10000, batch_size: 32}}
checkpoint: {{init: {init}}}
)",
      fmt::arg("header", kResolvedHeader), fmt::arg("source", printable(around.source)),
      fmt::arg("usage", usage_comment(around, "data.train.path=FOLDER")), fmt::arg("classes", network.labels),
      fmt::arg("data", image_data_yaml(processor, network.channels)),
      fmt::arg("activation", activation_text({network.activation})),
      fmt::arg("scale", network.layer_scale > 0
                            ? fmt::format("            - layer_scale: {}\n", network.layer_scale)
                            : std::string()),
      fmt::arg("stem", network.stages[0].filters), fmt::arg("patch", network.patch),
      fmt::arg("stages", convnext_stages_yaml(network)), fmt::arg("epsilon", network.epsilon),
      fmt::arg("initializer",
               fmt::format("{{type: truncated_normal, stddev: {}}}", network.initializer_range)),
      fmt::arg("init", image_init(around.target.path, network.without_head)));
}

}  // namespace mtf
