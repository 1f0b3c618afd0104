#include "engine/ops/convolution.h"

#include <fmt/format.h>

#include "engine/ops/binary.h"
#include "engine/ops/reshape.h"
#include "engine/ops/transpose.h"
#include "layers/activation.h"
#include "layers/dense.h"
#include "layers/initializer.h"
#include "layers/registry.h"
#include "layers/space/space.h"

namespace mtf {
namespace {

/// What all convolutions have beside their output.
struct KernelOptions : WindowsOptions {
  std::vector<config::Name> over;
  Activation activation = Activation::kLinear;
  bool bias = true;
  InitializerOptions kernel_initializer;
};

void describe_windows(config::Visitor& visit, KernelOptions& options) {
  visit("kernel", options.size, "entries of a window along each dimension, or {rows: 3, cols: 5}");
  visit("stride", options.stride, "distance of windows, likewise");
  visit("dilation", options.dilation, "distance of the entries of a window, likewise");
  visit("padding", options.padding,
        "what windows at the border read beyond it: zeros, so that there are n / stride windows (same); "
        "nothing, so that "
        "there are fewer (valid); or that many zeros on both sides, {rows: 1, cols: [0, 1]}");
  visit("over", options.over,
        "the channels (default: the dimensions that the layer before made; at first `channels`, if there are "
        "any)");
  visit("along", options.along,
        "the dimensions that windows move along (default: all but batch and channels)");
}

void describe_rest(config::Visitor& visit, KernelOptions& options) {
  visit("activation", options.activation, "a function of the result");
  visit("bias", options.bias, "adds a bias");
  visit("kernel_initializer", options.kernel_initializer, "initial values of the kernel");
  check_windows(visit, options, "kernel");
}

/// What a convolution works on: its channels renamed where the output uses their names.
struct Operand {
  Operand(const Context& context, const LayerTensor& input, const KernelOptions& options, const Shape& output,
          std::string_view layer, int rank)
      : x(input), over(channels_of(context, input, options.over)) {
    space = space_of(context, x, options.along, over, layer, rank);
    check_names(layer, options, space);
    x = rename_reused(layer, x, over, output);
  }

  Tensor x;
  Shape over, space;
};

int64_t elements(const std::vector<Window>& windows) {
  int64_t product = 1;
  for (const Window& window : windows) product *= window.size;
  return product;
}

Shape filter_shape(const std::vector<Window>& windows) {
  std::vector<Dimension> dimensions;
  for (const Window& window : windows) dimensions.push_back({window.filter, window.size});
  return Shape(std::move(dimensions));
}

LayerTensor finish(Context& context, Tensor y, const Shape& made, const KernelOptions& options) {
  if (options.bias) y = add(y, context.variable("bias", made, Initializer::zeros()), y.shape());
  return {activate(y, options.activation), made};
}

std::string layer_name(std::string_view prefix, int rank, std::string_view suffix = "") {
  return fmt::format("{}{}d{}", prefix, rank, suffix);
}

struct ConvolutionOptions : KernelOptions {
  Shape output;
  int64_t groups = 1;
};

void describe(config::Visitor& visit, ConvolutionOptions& options) {
  visit("output", options.output, "names and sizes of the channels that are made", config::required);
  describe_windows(visit, options);
  visit("groups", options.groups,
        "channels are divided into so many groups, and each makes its part of the output", config::positive);
  describe_rest(visit, options);
}

template <int kRank>
class ConvolutionLayer final : public Layer {
 public:
  using Options = ConvolutionOptions;
  explicit ConvolutionLayer(const Options& options) : options_(options) {}

  LayerTensor operator()(Context& context, const LayerTensor& input) const override {
    const Operand operand(context, input, options_, options_.output, layer_name("conv", kRank), kRank);
    const std::vector<Window> windows = windows_along(operand.space, options_, true);
    if (options_.groups > 1) return in_groups(context, operand, windows);
    const Initializer initializer =
        make_initializer(options_.kernel_initializer, elements(windows) * operand.over.size(),
                         elements(windows) * options_.output.size());
    const Tensor kernel =
        context.variable("kernel", filter_shape(windows) + operand.over + options_.output, initializer);
    return finish(context, convolution(operand.x, kernel, windows), options_.output, options_);
  }

 private:
  /// Channels and outputs are [groups, rest of a group]; the kernel has the channels of one group and all outputs.
  LayerTensor in_groups(Context& context, const Operand& operand, const std::vector<Window>& windows) const {
    const int64_t groups = options_.groups;
    if (operand.over.rank() != 1 || options_.output.rank() != 1 || operand.over[0].size % groups != 0 ||
        options_.output[0].size % groups != 0) {
      throw Error(ErrorKind::kConfig,
                  fmt::format("{}: {} groups of the channels {} and the output {}", layer_name("conv", kRank),
                              groups, operand.over.to_string(), options_.output.to_string()),
                  "one dimension each, whose size is a multiple of the groups");
    }
    const Dimension& in = operand.over[0];
    const Dimension& out = options_.output[0];
    // The outer dimensions keep the names, so that a layout that splits the channels splits the groups.
    const Dimension group{out.name, groups}, inner_in{"_in_group", in.size / groups},
        inner_out{"_out_of_group", out.size / groups};
    const Initializer initializer = make_initializer(
        options_.kernel_initializer, elements(windows) * inner_in.size, elements(windows) * inner_out.size);
    const Tensor stored = context.variable(
        "kernel", filter_shape(windows) + Dimension{in.name, inner_in.size} + out, initializer);
    const Tensor kernel =
        replace_dimensions(rename(stored, in.name, inner_in.name), {out}, {group, inner_out});
    const Tensor x = replace_dimensions(operand.x, {in}, {group, inner_in});
    const Tensor made = convolution(x, kernel, windows, {group});
    const Shape outputs{group, inner_out};
    const Tensor y = transpose(made, (made.shape() - outputs) + outputs);  // the channels may stand anywhere
    return finish(context, replace_dimensions(y, outputs, {out}), options_.output, options_);
  }

  Options options_;
};

struct DepthwiseOptions : KernelOptions {};

void describe(config::Visitor& visit, DepthwiseOptions& options) {
  describe_windows(visit, options);
  describe_rest(visit, options);
}

template <int kRank>
class DepthwiseLayer final : public Layer {
 public:
  using Options = DepthwiseOptions;
  explicit DepthwiseLayer(const Options& options) : options_(options) {}

  LayerTensor operator()(Context& context, const LayerTensor& input) const override {
    const Operand operand(context, input, options_, {}, layer_name("depthwise_conv", kRank), kRank);
    const std::vector<Window> windows = windows_along(operand.space, options_, true);
    const Initializer initializer =
        make_initializer(options_.kernel_initializer, elements(windows), elements(windows));
    const Tensor kernel = context.variable("kernel", filter_shape(windows) + operand.over, initializer);
    return finish(context, convolution(operand.x, kernel, windows, operand.over), operand.over, options_);
  }

 private:
  Options options_;
};

struct TransposedOptions : KernelOptions {
  Shape output;
  ExtraEntries extra = int64_t{0};
};

void describe(config::Visitor& visit, TransposedOptions& options) {
  visit("output", options.output, "names and sizes of the channels that are made", config::required);
  describe_windows(visit, options);
  visit("extra", options.extra, "entries more at the end of each dimension, or {rows: 1, cols: 0}");
  describe_rest(visit, options);
}

template <int kRank>
class TransposedLayer final : public Layer {
 public:
  using Options = TransposedOptions;
  explicit TransposedLayer(const Options& options) : options_(options) {}

  LayerTensor operator()(Context& context, const LayerTensor& input) const override {
    const std::string layer = layer_name("conv", kRank, "_transpose");
    const Operand operand(context, input, options_, options_.output, layer, kRank);
    check_names(layer, options_.extra, operand.space);
    const std::vector<Window> windows = windows_along(operand.space, options_, true, true, options_.extra);
    const Initializer initializer =
        make_initializer(options_.kernel_initializer, elements(windows) * operand.over.size(),
                         elements(windows) * options_.output.size());
    const Tensor kernel =
        context.variable("kernel", filter_shape(windows) + options_.output + operand.over, initializer);
    return finish(context, transposed_convolution(operand.x, kernel, windows), options_.output, options_);
  }

 private:
  Options options_;
};

constexpr std::string_view kFormula =
    "y[w, output] = activation(sum over k, channels of x[w * stride - padding + k * dilation, channels] * "
    "kernel + bias)\n"
    "kernel: [kernel_ROWS.., channels.., output..], bias: [output..]";
constexpr std::string_view kDepthwiseFormula =
    "y[w, channels] = activation(sum over k of x[w * stride - padding + k * dilation, channels] * kernel + "
    "bias)\n"
    "kernel: [kernel_ROWS.., channels..], bias: [channels..]";
constexpr std::string_view kTransposedFormula =
    "y[w * stride - padding + k * dilation, output] = activation(sum over w, k, channels of x[w, channels] * "
    "kernel + "
    "bias)\nkernel: [kernel_ROWS.., output.., channels..], bias: [output..]";

const LayerRegistration<ConvolutionLayer<1>> conv1d("conv1d", kFormula, {"convolution1d"});
const LayerRegistration<ConvolutionLayer<2>> conv2d("conv2d", kFormula,
                                                    {"conv", "convolution", "convolution2d"});
const LayerRegistration<ConvolutionLayer<3>> conv3d("conv3d", kFormula, {"convolution3d"});
const LayerRegistration<DepthwiseLayer<1>> depthwise1d("depthwise_conv1d", kDepthwiseFormula);
const LayerRegistration<DepthwiseLayer<2>> depthwise2d("depthwise_conv2d", kDepthwiseFormula,
                                                       {"depthwise_conv"});
const LayerRegistration<DepthwiseLayer<3>> depthwise3d("depthwise_conv3d", kDepthwiseFormula);
const LayerRegistration<TransposedLayer<1>> transposed1d("conv1d_transpose", kTransposedFormula,
                                                         {"conv_transpose1d"});
const LayerRegistration<TransposedLayer<2>> transposed2d("conv2d_transpose", kTransposedFormula,
                                                         {"conv_transpose2d", "deconvolution", "deconv"});
const LayerRegistration<TransposedLayer<3>> transposed3d("conv3d_transpose", kTransposedFormula,
                                                         {"conv_transpose3d"});

}  // namespace
}  // namespace mtf
