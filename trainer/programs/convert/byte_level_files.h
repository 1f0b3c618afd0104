// The older files of a byte-level tokeniser: vocab.json with the ids of its tokens and merges.txt with its merges, which say
// neither how texts are cut into words nor what tokens are special. The tokeniser's class says the one, tokenizer_config.json,
// special_tokens_map.json and added_tokens.json the other.
//
//   const std::optional<std::string> json = byte_level_tokenizer("gpt2");   // the text of a tokenizer.json
#pragma once

#include <optional>
#include <string>

namespace mtf {

/// Returns the text of a tokenizer.json that cuts texts as the class of transformers does: that of a GPT-2, a RoBERTa or a
/// BART, or a Qwen2, by `tokenizer_class` of tokenizer_config.json or else by `model_type` of config.json. Returns nullopt
/// where one of the two files is missing or the class is another one. Throws Error (kCheckpoint) for damaged files.
std::optional<std::string> byte_level_tokenizer(const std::string& directory);

}  // namespace mtf
