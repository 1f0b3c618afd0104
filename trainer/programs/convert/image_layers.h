// The options of the layers that several image networks have, as far as their conversions read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "layers/activation.h"
#include "layers/initializer.h"
#include "layers/space/space.h"

namespace mtf {

/// The options of conv2d, and but for `output` and `groups` those of depthwise_conv2d.
struct ConvertedConvolution : WindowsOptions {
  Shape output;
  std::vector<config::Name> over;
  int64_t groups = 1;
  Activation activation = Activation::kLinear;
  bool bias = true;
  InitializerOptions kernel_initializer;
};
inline void describe(config::Visitor& visit, ConvertedConvolution& options) {
  visit("output", options.output, "");
  visit("kernel", options.size, "");
  visit("stride", options.stride, "");
  visit("dilation", options.dilation, "");
  visit("padding", options.padding, "");
  visit("over", options.over, "");
  visit("along", options.along, "");
  visit("groups", options.groups, "");
  visit("activation", options.activation, "");
  visit("bias", options.bias, "");
  visit("kernel_initializer", options.kernel_initializer, "");
}

struct ConvertedActivation {
  static constexpr std::string_view shorthand = "function";
  Activation function = Activation::kRelu;
};
inline void describe(config::Visitor& visit, ConvertedActivation& options) {
  visit("function", options.function, "");
}

struct ConvertedResidual {
  config::Node layers, shortcut;
  double drop = 0;
};
inline void describe(config::Visitor& visit, ConvertedResidual& options) {
  visit("layers", options.layers, "");
  visit("shortcut", options.shortcut, "");
  visit("drop", options.drop, "");
}

/// The options of `layer_scale`.
struct ConvertedLayerScale {
  static constexpr std::string_view shorthand = "initial_value";
  double initial_value = 1e-6;
  std::vector<config::Name> over;
};
inline void describe(config::Visitor& visit, ConvertedLayerScale& options) {
  visit("initial_value", options.initial_value, "");
  visit("over", options.over, "");
}

/// The number for rows and columns; nothing where they differ.
std::optional<int64_t> square(const PerDimension& numbers);
/// True if windows read `size` / 2 zeros on both sides; `size` is odd.
bool has_half_padding(const PaddingChoice& choice, int64_t size, int64_t stride);
/// True if no window reads beyond the border, whatever the size of the image.
bool has_no_padding(const PaddingChoice& choice);

}  // namespace mtf
