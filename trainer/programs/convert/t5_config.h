// The hyperparameters of a T5, read from and written to Hugging Face's config.json and the configuration of
// this program. Raffel et al., Exploring the Limits of Transfer Learning, 2020; T5 v1.1 has gated units
// (Shazeer, GLU Variants Improve Transformer, 2020) and separate softmax weights.
//
//   const T5Config t5 = parse_t5_config(text, "t5-small/config.json");
//   const std::string yaml = t5_yaml(t5, {.vocabulary = "bytes", ...});
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "layers/activation.h"
#include "trainer/config/config.h"
#include "trainer/programs/convert/hugging_face.h"

namespace mtf {

/// The hyperparameters. The defaults are those of keys that config.json omits.
struct T5Config {
  int64_t vocab_size = 32128;
  int64_t d_model = 512;
  int64_t d_kv = 64;
  int64_t d_ff = 2048;
  int64_t num_layers = 6;          ///< number of encoder blocks
  int64_t num_decoder_layers = 6;  ///< number of decoder blocks; by default num_layers
  int64_t num_heads = 8;
  int64_t num_buckets = 32;
  double dropout = 0.1;
  double epsilon = 1e-6;
  std::vector<Activation> activation = {Activation::kRelu};
  bool tied = true;           ///< logits are computed with the embedding instead of lm_head (v1.1)
  bool scaled_logits = true;  ///< logits are computed from h / sqrt(d_model) instead of h (v1.1)

  friend bool operator==(const T5Config&, const T5Config&) = default;
};

/// Parses config.json; `path` names the text in messages. Throws Error (kCheckpoint) for a damaged text, for
/// other models, and for a T5 that this program cannot build.
T5Config parse_t5_config(const std::string& json, const std::string& path);
std::string t5_json(const T5Config& t5);
/// True if config.json has a name for these activations of the feed-forward layer.
bool has_feed_forward_name(const std::vector<Activation>& activation);

/// Returns the T5 that a configuration of this program describes, without vocab_size, which only the weights
/// determine. Throws Error (kConfig), which says what differs from a T5.
T5Config t5_of(const Config& config);

/// Returns the text of config.yaml.
std::string t5_yaml(const T5Config& t5, const ModelSurroundings& around);

}  // namespace mtf
