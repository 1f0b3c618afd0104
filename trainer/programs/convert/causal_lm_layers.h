// The layers of a language model's configuration, which say what model of Hugging Face it is.
//
//   CausalLmLayers layers = read_causal_lm_layers(options, config.mark("model"));
//   settle_family(layers);   // layers.lm is complete but for what the vocabulary determines
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/base/error.h"
#include "engine/config/load.h"
#include "layers/attention.h"
#include "layers/relative_bias.h"
#include "layers/rotary.h"
#include "models/transformer.h"
#include "trainer/programs/convert/causal_lm_config.h"
#include "trainer/programs/convert/layer_options.h"

namespace mtf {

/// What stands behind attention in a block.
inline constexpr const char *kFeedForward = "DenseReluDense", *kExperts = "MoE1D";

[[noreturn]] void not_causal_lm(const Mark& mark, const std::string& what, const std::string& hint);

/// The balance loss of transformers, over that of a layer here. It is made of means over all layers, and loads add up to the
/// number of experts of a token; here each layer has a loss, and loads add up to 1.
double balance_ratio(const CausalLmConfig& lm);

/// All options of the layers of attention.
struct CausalLmAttention : HeadOptions, RotaryOptions {
  RelativeAttention relative_attention_type = RelativeAttention::kNone;
  bool alibi = false;
  int64_t radius = 128;
};
void describe(config::Visitor& visit, CausalLmAttention& options);

/// The rotary positions of a layer.
struct ConvertedRotary : RotaryOptions {};
void describe(config::Visitor& visit, ConvertedRotary& options);

/// What a configuration says, and where: `lm` has what all families have.
struct CausalLmLayers {
  CausalLmConfig lm;
  Mark of_model, of_sublayers, of_attention, of_feed_forward;
  CausalLmAttention attention;
  ConvertedFeedForward feed_forward;  ///< or what experts have in common with one
  bool has_layer_norm = false;        ///< false: rms_norm
  bool has_norm_biases = true;        ///< layer_norm has a bias
  bool has_learned_positions = false;
  bool has_scaled_embedding = false;
  bool has_embedding_norm = false;                           ///< before the first layer
  std::optional<ConvertedRotary> full_rotary, local_rotary;  ///< nothing: no such layer has rotary positions

  /// True if the attention of some layers is local, and of others not.
  bool has_mixed_windows() const;
};

/// Throws Error (kConfig) for what no language model of Hugging Face has.
CausalLmLayers read_causal_lm_layers(const LanguageModelOptions& model, const Mark& mark);

/// Sets `lm.family`, and what only some families have. Throws Error (kConfig), which says what differs from each of them.
void settle_family(CausalLmLayers& layers);

}  // namespace mtf
