// Reads a ResNet from the layers of a configuration.
#include <fmt/format.h>

#include <algorithm>

#include "trainer/programs/convert/image_layers.h"
#include "trainer/programs/convert/layer_options.h"
#include "trainer/programs/convert/model_layers.h"
#include "trainer/programs/convert/resnet_config.h"

namespace mtf {
namespace {

using config::Node;

[[noreturn]] void not_resnet(const Mark& mark, const std::string& what, const std::string& hint) {
  throw Error(ErrorKind::kConfig, mark, "the model is no ResNet: " + what, hint);
}

/// The options of max_pool.
struct ConvertedPool : WindowsOptions {
  static constexpr std::string_view shorthand = "size";
  std::optional<PerDimension> distance;
};
void describe(config::Visitor& visit, ConvertedPool& options) {
  visit("size", options.size, "");
  visit("stride", options.distance, "");
  visit("dilation", options.dilation, "");
  visit("padding", options.padding, "");
  visit("along", options.along, "");
}

struct ConvertedBatchNorm {
  std::vector<config::Name> over;
  double momentum = 0.9, epsilon = 1e-5, initial_scale = 1;
};
void describe(config::Visitor& visit, ConvertedBatchNorm& options) {
  visit("over", options.over, "");
  visit("momentum", options.momentum, "");
  visit("epsilon", options.epsilon, "");
  visit("initial_scale", options.initial_scale, "");
}

/// The layers of a ResNet's model, from which its hyperparameters are read.
class ResNetReader {
 public:
  explicit ResNetReader(const Node& model) : model_(model), layers_(model) {}

  ResNetLayers read() {
    const Node* type = model_.find("type");
    require(type && type->text() == "classifier", model_.mark(),
            fmt::format("its type is {}", type ? type->text() : ""), "classifier");
    left_ = layers_.all();
    std::erase_if(left_, [](const ScopedLayer& layer) { return layer.entry.name == "rename"; });
    made_.stem = convolution();
    require(made_.stem.kernel == 7 && made_.stem.stride == 2, mark_, "its first convolution differs",
            "conv2d: {output: {filters: 64}, kernel: 7, stride: 2, padding: 3, bias: false}");
    made_.resnet.stem = made_.stem.filters;
    made_.resnet.stages.clear();
    made_.resnet.activation = activation();
    pool();
    while (has("residual")) block();
    require(!made_.stages.empty(), mark_, "it has no `residual`", "residual, activation, ...");
    next("global_average_pool");
    classifier();
    require(left_.empty(), mark_, "layers follow the classes",
            "dense: {output: {classes: 10}} as the last layer");
    return made_;
  }

 private:
  static void require(bool holds, const Mark& mark, const std::string& what, const std::string& right) {
    if (!holds) not_resnet(mark, what, right);
  }

  template <class Options>
  Options options(const ScopedLayer& layer) const {
    return layers_.options<Options>(layer, not_resnet);
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

  /// Takes a convolution and its batch norm.
  ResNetConvolution convolution() {
    const ScopedLayer layer = next("conv2d");
    const auto options = this->options<ConvertedConvolution>(layer);
    const std::optional<int64_t> kernel = square(options.size), stride = square(options.stride);
    require(kernel && stride && square(options.dilation) == 1 && options.groups == 1 &&
                options.over.empty() && options.along.empty() && options.output.rank() == 1,
            layer.entry.mark,
            "a convolution differs in `kernel`, `stride`, `dilation`, `groups`, `over` or `along`",
            "square windows over rows and columns, without dilation and groups");
    require(!options.bias && options.activation == Activation::kLinear, layer.entry.mark,
            "a convolution has a bias or an activation", "bias: false, then batch_norm and activation");
    require(has_half_padding(options.padding, *kernel, *stride), layer.entry.mark,
            "a convolution has another padding", fmt::format("padding: {}", *kernel / 2));
    const ScopedLayer norm = next("batch_norm");
    const auto of_norm = this->options<ConvertedBatchNorm>(norm);
    require(of_norm.epsilon == 1e-5 && of_norm.over.empty(), norm.entry.mark,
            "a batch_norm has another `epsilon`", "epsilon: 1e-5");
    return {layer.scope, norm.scope, *kernel, options.output[0].size, *stride};
  }

  /// Takes an activation.
  Activation activation() {
    const ScopedLayer layer = next("activation");
    const Activation function = options<ConvertedActivation>(layer).function;
    require(!activation_name(function).empty(), layer.entry.mark, "it has another activation", "relu");
    return function;
  }

  void pool() {
    const ScopedLayer layer = next("max_pool");
    const auto options = this->options<ConvertedPool>(layer);
    require(square(options.size) == 3 && options.distance && square(*options.distance) == 2 &&
                square(options.dilation) == 1 && has_half_padding(options.padding, 3, 2) &&
                options.along.empty(),
            layer.entry.mark, "its max_pool differs", "max_pool: {size: 3, stride: 2, padding: 1}");
  }

  /// Takes a residual and the activation behind it.
  void block() {
    const ScopedLayer layer = next("residual");
    const auto residual = options<ConvertedResidual>(layer);
    ResNetBlock block{branch(layers_.of(residual.layers, layer.scope)),
                      branch(layers_.of(residual.shortcut, layer.scope + "/shortcut"))};
    require(activation() == made_.resnet.activation, mark_,
            "the activation behind a block differs from the first one", "one for all");
    add(block, layer.entry.mark);
  }

  /// The convolutions of a list, with activations between them.
  std::vector<ResNetConvolution> branch(std::vector<ScopedLayer> list) {
    std::vector<ResNetConvolution> convolutions;
    std::swap(left_, list);
    while (!left_.empty()) {
      if (!convolutions.empty())
        require(activation() == kActivationInBlocks, mark_, "another activation is within a block", "relu");
      convolutions.push_back(convolution());
    }
    std::swap(left_, list);
    return convolutions;
  }

  void add(const ResNetBlock& block, const Mark& mark) {
    const bool is_first = made_.stages.empty();
    const int64_t before = is_first ? made_.stem.filters : made_.resnet.stages.back().filters;
    const int64_t filters = block.branch.empty() ? 0 : block.branch.back().filters;
    check_branch(block, is_first, mark);
    const int64_t stride = stride_of(block);
    if (block.shortcut.empty()) {
      require(stride == 1 && filters == before, mark, "a block makes other sizes without a shortcut",
              "shortcut: [..]");
    } else {
      const ResNetConvolution& shortcut = block.shortcut[0];
      require(
          block.shortcut.size() == 1 && shortcut.kernel == 1 && shortcut.stride == stride &&
              shortcut.filters == filters && (stride == 2 || (is_first && filters != before)),
          mark, "a shortcut differs",
          "shortcut: [conv2d: {kernel: 1, stride: 2, bias: false, ..}, batch_norm] in the first block of a "
          "stage, with a stride of 1 in the first stage");
    }
    if (is_first || !block.shortcut.empty()) {
      made_.resnet.stages.push_back({filters, 0, stride == 2});
      made_.stages.emplace_back();
    }
    ++made_.resnet.stages.back().depth;
    made_.stages.back().push_back(block);
  }

  static int64_t stride_of(const ResNetBlock& block) {
    int64_t stride = 1;
    for (const ResNetConvolution& convolution : block.branch) stride *= convolution.stride;
    return stride;
  }

  /// Checks the convolutions of a branch, and sets of which kind blocks are.
  void check_branch(const ResNetBlock& block, bool is_first, const Mark& mark) {
    const std::vector<ResNetConvolution>& branch = block.branch;
    const bool is_bottleneck = branch.size() == 3;
    if (is_first) made_.resnet.is_bottleneck = is_bottleneck;
    require((branch.size() == 2 || is_bottleneck) && is_bottleneck == made_.resnet.is_bottleneck, mark,
            fmt::format("a block has {} convolutions", branch.size()), "two in all blocks, or three");
    const int64_t filters = branch.back().filters,
                  inner = is_bottleneck ? ResNetConfig::reduced(filters) : filters;
    for (size_t i = 0; i < branch.size(); ++i) {
      const bool is_middle = i + 1 < branch.size(), is_outer = is_bottleneck && i != 1;
      require(branch[i].kernel == (is_outer ? 1 : 3) && (!is_middle || branch[i].filters == inner), mark,
              "the convolutions of a block differ",
              is_bottleneck ? "windows of 1, 3 and 1, and a quarter of the channels in the middle"
                            : "two windows of 3 that make as many channels");
    }
    const bool in_first = branch[0].stride == 2;
    require(stride_of(block) == 1 ||
                (stride_of(block) == 2 && (in_first || (is_bottleneck && branch[1].stride == 2))),
            mark, "a block has another stride", "2 in one convolution of a stage");
    if (!is_bottleneck || stride_of(block) == 1) return;
    require(!has_stride_ || in_first == made_.resnet.halves_in_first, mark,
            "the stride is in the first convolution of one block, and in the second of another",
            "one place for all");
    has_stride_ = true;
    made_.resnet.halves_in_first = in_first;
  }

  void classifier() {
    const ScopedLayer layer = next("dense");
    const auto dense = options<ConvertedDense>(layer);
    require(dense.output.rank() == 1 && dense.bias && dense.activation == Activation::kLinear,
            layer.entry.mark, "its last layer makes no classes, or has an activation or no bias",
            "dense: {output: {classes: 10}}");
    made_.classifier = layer.scope;
  }

  const Node& model_;
  ModelLayers layers_;
  std::vector<ScopedLayer> left_;  ///< layers that are to be read
  Mark mark_;                      ///< the place of the layer that was read last
  bool has_stride_ = false;
  ResNetLayers made_;
};

}  // namespace

ResNetLayers resnet_of(const Node& model) { return ResNetReader(model).read(); }

}  // namespace mtf
