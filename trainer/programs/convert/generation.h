// How a model in Hugging Face form writes texts, unless it is told otherwise: generation_config.json, or in older models the
// same keys of config.json. What can be said here becomes the section `infer`; one note names the rest.
//
//   const Generation generation = read_generation("opus-mt-en-de", notes);
//   infer_text(generation, {.given = 1}, token_of, notes)   // "method: beam, beam_size: 4, length_penalty: {alpha: 1, ..}"
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/programs/convert/hugging_face.h"

namespace mtf {

/// The options, with the names and the defaults of transformers. Ids are those of the tokeniser's file.
struct Generation {
  bool is_given = false;  ///< the file has one of these keys at least
  bool do_sample = false;
  int64_t num_beams = 1;
  double temperature = 1;
  int64_t top_k = 50;
  double top_p = 1;
  double min_p = 0;
  double length_penalty = 1;
  double repetition_penalty = 1;
  int64_t no_repeat_ngram_size = 0;
  int64_t min_length = 0;  ///< with the tokens that are given
  std::optional<int64_t> max_length = {}, min_new_tokens = {}, max_new_tokens = {};
  std::vector<int32_t> suppress_tokens = {};
  std::vector<int32_t> stop_tokens = {};  ///< those of `eos_token_id` that are not the model's own end
  int64_t num_return_sequences = 1;
  bool forces_end = false;  ///< `forced_eos_token_id` is the token that ends texts
  std::vector<std::string> stop_strings = {};

  friend bool operator==(const Generation&, const Generation&) = default;
};

/// What lengths of transformers count.
struct GenerationLengths {
  /// Tokens that a decoder is given, the one that it begins with among them; nothing: the prompt of a language model.
  std::optional<int64_t> given = {};
  int64_t most = INT64_MAX;  ///< positions of the model, with those of the given tokens
};

/// Parses the text of a file; `path` names it in messages. `end`: the token that ends texts anyway. Words of `bad_words_ids` of one token are added to suppress_tokens.
/// Throws Error (kCheckpoint) for values that no option can have.
Generation parse_generation(const std::string& text, const std::string& path, std::optional<int32_t> end,
                            std::vector<std::string>& notes);
/// Returns the file of a directory that says it: generation_config.json, or config.json where there is none. Options of single
/// tasks, which config.json may have besides, become a note.
std::string generation_file_of(const std::string& directory, std::vector<std::string>& notes);
/// Parses this file.
Generation read_generation(const std::string& directory, std::optional<int32_t> end,
                           std::vector<std::string>& notes);

/// Returns the keys of `infer`, as in a map on one line; nothing where the file says nothing. `token` is the piece of an id.
std::string infer_text(const Generation& generation, const GenerationLengths& lengths,
                       const std::function<std::optional<std::string>(int32_t)>& token,
                       std::vector<std::string>& notes);

/// Returns what a configuration of this program says. `id` is that of a piece in the tokeniser's file; nothing for a piece that
/// it lacks. What transformers cannot say becomes notes.
Generation generation_of(const DecodeOptions& infer, const GenerationLengths& lengths,
                         const std::function<std::optional<int32_t>(const config::Name&)>& id,
                         std::vector<std::string>& notes);
/// Adds the options that are not the defaults to generation_config.json, where `eos_token_id` is the token that ends texts.
void add_generation(const Generation& generation, nlohmann::ordered_json& json);

/// Returns what finds the token of an id in the tokeniser of a directory.
std::function<std::optional<std::string>(int32_t)> tokens_of(const std::string& directory);
/// Returns what finds the id, in the tokeniser's file, of a token of the written texts.
std::function<std::optional<int32_t>(const config::Name&)> written_token_ids(const Config& config);

}  // namespace mtf
