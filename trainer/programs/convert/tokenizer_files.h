// The files of a tokeniser in Hugging Face form: tokenizer.json and what stands beside it.
//
//   const std::optional<TokenizerIds> tokens = tokenizer_ids_of("SmolLM2-135M", lm.vocab_size, import);
//   const std::string path = add_tokenizer_files("SmolLM2-135M", target, import);
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/vocabulary/renumbering.h"
#include "data/vocabulary/vocabulary_options.h"
#include "trainer/config/config.h"
#include "trainer/programs/convert/hugging_face.h"
#include "trainer/programs/convert/tokenizer_ids.h"

namespace mtf {

inline constexpr const char *kTokenizer = "tokenizer.json", *kChatTemplate = "chat_template.jinja";

/// Returns the value of `data.vocabulary`.
std::string vocabulary_text(const std::string& path, const std::optional<std::string>& begin,
                            const std::string& end, int64_t size);

/// Returns a token of tokenizer_config.json, which is a text or an object with one. Throws Error (kCheckpoint).
std::optional<std::string> special_token(const HuggingFaceJson& json, const char* key);
/// Returns the tokens of tokenizer.json in `from` without the added ones that have no row in a model of so many ids, of which
/// notes tell; nothing where there is no such file. Throws Error (kCheckpoint) for more tokens than rows.
std::optional<TokenizerIds> tokenizer_ids_of(const std::string& from, int64_t rows,
                                             HuggingFaceImport& import);
/// Returns the token of an id. Throws Error (kCheckpoint) for an id without one; `from` is the directory.
std::string token_of(const TokenizerIds& tokens, int32_t id, const std::string& from);
/// Adds the files of a tokeniser to `import`, and notes on those that are missing. Returns the path of tokenizer.json for the
/// configuration.
std::string add_tokenizer_files(const std::string& from, const ImportTarget& target,
                                HuggingFaceImport& import);

/// Returns what the ids of a vocabulary are in its file. Throws Error (kConfig) at `mark`.
FileIds file_ids_in(const HuggingFaceOptions& vocabulary, const Mark& mark);

/// Returns the ids in the file of the rows of an embedding. Rows beyond the ids of the vocabulary stay behind all others.
/// Throws Error (kCheckpoint) for fewer rows than ids.
std::vector<int32_t> file_ids_of_rows(const FileIds& ids, int64_t rows);
/// Returns the vocabulary of the texts, if it is one of Hugging Face's; otherwise adds a note.
std::optional<HuggingFaceOptions> exported_vocabulary(const Config& config, std::vector<std::string>& notes);

/// Copies the files of a tokeniser into a directory.
void copy_tokenizer(const HuggingFaceOptions& vocabulary, const std::string& directory);

}  // namespace mtf
