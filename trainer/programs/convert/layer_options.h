// Reads the layers of a configuration for the conversion of a model, which has to know what they compute.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/load.h"
#include "layers/activation.h"
#include "layers/attention.h"
#include "layers/initializer.h"
#include "layers/layer_entry.h"
#include "layers/layer_stack.h"
#include "layers/lora.h"
#include "layers/positions.h"
#include "models/model.h"

namespace mtf {

/// Returns the value of `model`. Throws Error (kConfig).
ModelChoice parse_model_options(const config::Node& model);

/// Throws an Error that says why a layer does not belong to the model.
using RefuseLayer = std::function<void(const Mark& mark, const std::string& what, const std::string& hint)>;

/// The options of a layer as a tree, with the model's defaults for it.
config::Node merged_options(const LayerEntry& layer, const config::Node* defaults);

/// The options of a layer, with the model's defaults for it. Options that `Options` lacks are refused.
template <class Options>
Options parse_layer(const LayerEntry& layer, const config::Node* defaults, const RefuseLayer& refuse) {
  Diagnostics diagnostics;
  const auto options = config::parse<Options>(merged_options(layer, defaults), diagnostics, layer.name);
  if (diagnostics.has_errors()) {
    const Problem& first = diagnostics.errors().front();
    refuse(first.mark, first.message, first.hint);
  }
  return options;
}

/// The options of the layer DenseReluDense.
struct ConvertedFeedForward {
  int64_t hidden_size = 4096;
  std::vector<Activation> activation = {Activation::kRelu};
  bool bias = false;
  double dropout = 0;
  InitializerOptions kernel_initializer;
  InitializerOptions bias_initializer;
  std::optional<LoraOptions> lora;  ///< merged before
};
inline void describe(config::Visitor& visit, ConvertedFeedForward& options) {
  visit("hidden_size", options.hidden_size, "");
  visit("activation", options.activation, "");
  visit("bias", options.bias, "");
  visit("dropout", options.dropout, "");
  visit("kernel_initializer", options.kernel_initializer, "");
  visit("bias_initializer", options.bias_initializer, "");
  visit("lora", options.lora, "");
}

/// The options of an attention layer without relative positions.
struct ConvertedAttention : HeadOptions {};
inline void describe(config::Visitor& visit, ConvertedAttention& options) {
  describe(visit, static_cast<HeadOptions&>(options));
}

/// Refuses attention that differs from softmax(q k / sqrt(key_value_size)) v with as many heads of keys and values.
void require_plain_attention(const HeadOptions& options, const Mark& mark, const RefuseLayer& refuse);

/// The options of `dense`.
struct ConvertedDense {
  Shape output;
  Activation activation = Activation::kLinear;
  bool bias = true;
  std::string name;
  InitializerOptions kernel_initializer, bias_initializer;
  std::optional<LoraOptions> lora;  ///< merged before
};
inline void describe(config::Visitor& visit, ConvertedDense& options) {
  visit("output", options.output, "");
  visit("activation", options.activation, "");
  visit("bias", options.bias, "");
  visit("name", options.name, "");
  visit("kernel_initializer", options.kernel_initializer, "");
  visit("bias_initializer", options.bias_initializer, "");
  visit("lora", options.lora, "");
}

/// The options of `positions`.
struct ConvertedPositions {
  static constexpr std::string_view shorthand = "type";
  Positions type = Positions::kLearned;
  double stddev = 0;
  std::optional<int64_t> max_length;
  int64_t first_position = 0;
};
inline void describe(config::Visitor& visit, ConvertedPositions& options) {
  visit("type", options.type, "");
  visit("stddev", options.stddev, "");
  visit("max_length", options.max_length, "");
  visit("first_position", options.first_position, "");
}

/// The options of `token_types`.
struct ConvertedTokenTypes {
  static constexpr std::string_view shorthand = "types";
  int64_t types = 2;
  int64_t second_text = 1;
  InitializerOptions initializer;
};
inline void describe(config::Visitor& visit, ConvertedTokenTypes& options) {
  visit("types", options.types, "");
  visit("second_text", options.second_text, "");
  visit("initializer", options.initializer, "");
}

/// The options of `pooler`.
struct ConvertedPooler {
  static constexpr std::string_view shorthand = "from";
  std::string from = "first";
  Activation activation = Activation::kTanh;
  InitializerOptions kernel_initializer;
};
inline void describe(config::Visitor& visit, ConvertedPooler& options) {
  visit("from", options.from, "");
  visit("activation", options.activation, "");
  visit("kernel_initializer", options.kernel_initializer, "");
}

/// The options of `transformer`.
struct ConvertedStack : StackOptions, SublayerOptions {
  bool causal = false;
};
inline void describe(config::Visitor& visit, ConvertedStack& options) {
  describe(visit, static_cast<StackOptions&>(options));
  describe_sublayers(visit, options);
  visit("causal", options.causal, "");
}

/// The options of rms_norm and layer_norm.
struct ConvertedNorm {
  double epsilon = 1e-6;
};
inline void describe(config::Visitor& visit, ConvertedNorm& options) {
  visit("epsilon", options.epsilon, "");
}

/// The options of `dropout`.
struct ConvertedDropout {
  static constexpr std::string_view shorthand = "rate";
  double rate = 0;
  std::vector<config::Name> share;
};
inline void describe(config::Visitor& visit, ConvertedDropout& options) {
  visit("rate", options.rate, "");
  visit("share", options.share, "");
}

/// Returns the layers of a list. Throws Error (kConfig).
std::vector<LayerEntry> layer_entries(const config::Node& list);

/// Takes the layers of dropout out of a list; `rate` becomes that of the last one, or 0.
std::vector<LayerEntry> without_dropout(const config::Node& list, const config::Node* defaults,
                                        const RefuseLayer& refuse, double& rate);

/// Refuses a stack whose first layer stands in other sublayers than the others.
void require_same_sublayers(const SublayerLists& lists, const RefuseLayer& refuse);

/// Refuses a list of other layers than these; `what` begins the message, as in "its block is".
void expect_layers(const std::vector<LayerEntry>& list, const std::vector<std::string>& wanted,
                   const Mark& mark, const std::string& what, const RefuseLayer& refuse);

/// "relu", or "[gelu, linear]"
std::string activation_text(const std::vector<Activation>& activation);

}  // namespace mtf
