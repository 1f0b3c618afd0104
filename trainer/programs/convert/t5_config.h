// What distinguishes one T5 from another, as Hugging Face's config.json and as a configuration of this
// program say it. Raffel et al., Exploring the Limits of Transfer Learning, 2020; T5 v1.1: gated units
// (Shazeer, GLU Variants Improve Transformer, 2020) and softmax weights of their own.
//
//   const T5Config t5 = parse_t5_config(text, "t5-small/config.json");
//   const std::string yaml = t5_yaml(t5, {.vocabulary = "bytes", ...});
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "layers/activation.h"
#include "trainer/config/config.h"

namespace mtf {

/// Defaults are those that config.json leaves out.
struct T5Config {
  int64_t vocab_size = 32128;
  int64_t d_model = 512;
  int64_t d_kv = 64;
  int64_t d_ff = 2048;
  int64_t num_layers = 6;          ///< of the encoder
  int64_t num_decoder_layers = 6;  ///< as many as num_layers when it is left out
  int64_t num_heads = 8;
  int64_t num_buckets = 32;
  double dropout = 0.1;
  double epsilon = 1e-6;
  std::vector<Activation> activation = {Activation::kRelu};
  bool tied = true;           ///< the logits come from the embedding instead of lm_head (v1.1)
  bool scaled_logits = true;  ///< of h / sqrt(d_model) instead of h (v1.1)

  friend bool operator==(const T5Config&, const T5Config&) = default;
};

/// `path` stands for the text in messages. Throws Error (kCheckpoint) for a text that is damaged, for other
/// models, and for a T5 that cannot be built here.
T5Config parse_t5_config(const std::string& json, const std::string& path);
std::string t5_json(const T5Config& t5);
/// config.json has a name for these activations of the feed-forward layer.
bool has_feed_forward_name(const std::vector<Activation>& activation);

/// The T5 that a configuration of this program describes, but for vocab_size, which its weights tell. Throws
/// Error (kConfig) with what a T5 has otherwise.
T5Config t5_of(const Config& config);

/// What config.yaml says beside the model.
struct T5Surroundings {
  std::string vocabulary;  ///< the value of `data.vocabulary`
  std::string directory;   ///< in which the model will lie
  std::string source;      ///< where it comes from
};
/// The text of config.yaml.
std::string t5_yaml(const T5Config& t5, const T5Surroundings& around);

}  // namespace mtf
