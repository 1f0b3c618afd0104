// The hyperparameters of translation and summarisation models that are built like BART, read from and written to Hugging
// Face's config.json and the configuration of this program: BART (Lewis et al., 2020), mBART (Liu et al., 2020; Tang et al.,
// 2020), M2M-100 and NLLB (Fan et al., 2021; NLLB Team, 2022) and Marian (Junczys-Dowmunt et al., 2018).
//
//   const BartConfig bart = parse_bart_config(text, "opus-mt-en-de/config.json", notes);
//   const std::string yaml = bart_yaml(bart, {.vocabulary = "{inputs: {type: marian, ...}, ...}", ...});
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "layers/activation.h"
#include "layers/positions.h"
#include "models/bitransformer.h"
#include "trainer/config/config.h"
#include "trainer/programs/convert/generation.h"
#include "trainer/programs/convert/hugging_face.h"

namespace mtf {

enum class BartKind : uint8_t { kMarian, kBart, kMbart, kM2m100 };

/// What tells the models apart.
struct BartForm {
  BartKind kind;
  std::string_view model_type;    ///< in config.json
  std::string_view architecture;  ///< the class of transformers
  std::string_view name;          ///< in messages
  bool norms_first;  ///< a norm stands before each layer, and one behind the last; else behind each
  bool norms_embedding;
  Positions positions;
  int64_t first_position;  ///< TokenModelOptions::first_position
  bool has_bias;           ///< logits have a bias
};
const BartForm& form_of(BartKind kind);
/// The `model_type` of each kind but Marian, whose export is a format of its own.
std::vector<std::string_view> bart_types();

/// The layers of one side.
struct BartStack {
  int64_t num_layers = 12;
  int64_t num_heads = 16;
  int64_t intermediate = 4096;

  friend bool operator==(const BartStack&, const BartStack&) = default;
};

/// The hyperparameters. The defaults are those of keys that the config.json of a Marian omits.
struct BartConfig {
  BartKind kind = BartKind::kMarian;
  int64_t vocab_size = 58101;
  int64_t decoder_vocab_size = 58101;
  int32_t padding = 58100;  ///< the file's id of padding
  int32_t end = 0;          ///< the file's id of what ends a text
  DecoderStart start = DecoderStart::kPadding;
  int64_t d_model = 1024;
  BartStack encoder, decoder;
  int64_t max_positions = 1024;
  Activation activation = Activation::kGeluErf;
  double dropout = 0.1;
  double attention_dropout = 0;
  double activation_dropout = 0;
  bool scales_embedding = false;  ///< vectors of tokens are multiplied by sqrt(d_model)
  bool shared_embedding = true;   ///< inputs and targets have one
  bool tied = true;               ///< logits are computed with the embedding of the targets
  bool predicts_padding = true;   ///< false: `bad_words_ids` has padding
  Generation generation = {.is_given = true};
  std::optional<int32_t> begin = {};  ///< the file's id of `<s>`
  std::optional<int32_t> forced_begin =
      {};  ///< the file's id of the token that all texts of the decoder begin with

  friend bool operator==(const BartConfig&, const BartConfig&) = default;
};

/// The tokens that a decoder is given, and the positions that it has.
GenerationLengths generation_lengths(const BartConfig& bart);
/// What a BartConfig is without config.json's keys.
BartConfig default_bart(BartKind kind);

/// Parses config.json; `path` names the text in messages. Throws Error (kCheckpoint) for a damaged text, for other models, and
/// for those that this program cannot build.
BartConfig parse_bart_config(const std::string& json, const std::string& path,
                             std::vector<std::string>& notes);
/// Reads what decoding needs: generation_config.json, or in older models config.json. Throws the same.
void parse_bart_generation(const std::string& json, const std::string& path, BartConfig& bart,
                           std::vector<std::string>& notes);
std::string bart_json(const BartConfig& bart);
std::string bart_generation_json(const BartConfig& bart);

/// Returns the model that a configuration of this program describes, without what the vocabulary and the weights determine:
/// sizes of the vocabularies, padding, end, begin, forced_begin and generation. Throws Error (kConfig), which says what differs
/// from a Marian (`is_marian`), or from the other models.
BartConfig bart_of(const Config& config, bool is_marian);
/// Returns the text of config.yaml.
std::string bart_yaml(const BartConfig& bart, const ModelSurroundings& around);

}  // namespace mtf
