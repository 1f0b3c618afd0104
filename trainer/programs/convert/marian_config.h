// The hyperparameters of a Marian (Junczys-Dowmunt et al., 2018), read from and written to Hugging Face's config.json and the
// configuration of this program.
//
//   const MarianConfig marian = parse_marian_config(text, "opus-mt-en-de/config.json", notes);
//   const std::string yaml = marian_yaml(marian, {.vocabulary = "{inputs: {type: marian, ...}, ...}", ...});
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "layers/activation.h"
#include "trainer/config/config.h"
#include "trainer/programs/convert/hugging_face.h"

namespace mtf {

/// The layers of one side.
struct MarianStack {
  int64_t num_layers = 12;
  int64_t num_heads = 16;
  int64_t intermediate = 4096;

  friend bool operator==(const MarianStack&, const MarianStack&) = default;
};

/// The hyperparameters. The defaults are those of keys that config.json omits.
struct MarianConfig {
  int64_t vocab_size = 58101;
  int64_t decoder_vocab_size = 58101;
  int32_t padding = 58100;  ///< the file's id of padding, with which a decoder begins
  int32_t end = 0;          ///< the file's id of what ends a text
  int64_t d_model = 1024;
  MarianStack encoder, decoder;
  int64_t max_positions = 1024;
  Activation activation = Activation::kGeluErf;
  double dropout = 0.1;
  double attention_dropout = 0;
  double activation_dropout = 0;
  bool scales_embedding = false;  ///< vectors of tokens are multiplied by sqrt(d_model)
  bool shared_embedding = true;   ///< inputs and targets have one
  bool tied = true;               ///< logits are computed with the embedding of the targets
  bool predicts_padding = true;   ///< false: `bad_words_ids` has padding
  int64_t num_beams = 1;

  friend bool operator==(const MarianConfig&, const MarianConfig&) = default;
};

/// Parses config.json; `path` names the text in messages. Throws Error (kCheckpoint) for a damaged text, for other models, and
/// for those that this program cannot build.
MarianConfig parse_marian_config(const std::string& json, const std::string& path,
                                 std::vector<std::string>& notes);
/// Reads what decoding needs: generation_config.json, or in older models config.json. Throws the same.
void parse_marian_generation(const std::string& json, const std::string& path, MarianConfig& marian,
                             std::vector<std::string>& notes);
std::string marian_json(const MarianConfig& marian);
std::string marian_generation_json(const MarianConfig& marian);

/// Returns the model that a configuration of this program describes, without what the vocabulary and the weights determine:
/// sizes of the vocabularies, padding and end. Throws Error (kConfig), which says what differs from a Marian.
MarianConfig marian_of(const Config& config);
/// Returns the text of config.yaml.
std::string marian_yaml(const MarianConfig& marian, const ModelSurroundings& around);

}  // namespace mtf
