// The ids of a language model: those of its tokeniser's file, and those of this program (data/vocabulary/renumbering.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/vocabulary/renumbering.h"
#include "data/vocabulary/vocabulary_options.h"
#include "trainer/config/config.h"
#include "trainer/programs/convert/causal_lm_config.h"
#include "trainer/programs/convert/hugging_face.h"
#include "trainer/programs/convert/tokenizer_ids.h"

namespace mtf {

inline constexpr const char* kTokenizer = "tokenizer.json";

/// Returns the value of `data.vocabulary`.
std::string vocabulary_text(const std::string& path, const std::optional<std::string>& begin,
                            const std::string& end, int64_t size);

/// Adds notes on added tokens that no row of the embedding is for, and on a directory without tokenizer.json.
void note_dropped_tokens(const std::vector<std::string>& dropped, std::vector<std::string>& notes);
void note_missing_tokenizer(const std::string& from, std::vector<std::string>& notes);
/// Throws Error (kCheckpoint) if the tokens of a file need more rows.
void check_tokens(const TokenizerIds& tokens, const std::string& file, int64_t rows);

/// Settles which tokens begin and end a text, and returns the value of `data.vocabulary`. Files to copy and notes are added to
/// `import`.
std::string settle_vocabulary(const std::string& from, const ImportTarget& target, CausalLmConfig& lm,
                              HuggingFaceImport& import);

/// Returns what the ids of a vocabulary are in its file. Throws Error (kConfig) at `mark`.
FileIds file_ids_in(const HuggingFaceOptions& vocabulary, const Mark& mark);

/// Returns what the rows of the embedding are in the file, and sets begin, end and vocab_size. Rows beyond the ids of the
/// vocabulary stay behind all others.
std::vector<int32_t> settle_ids(const FileIds& ids, int64_t rows, CausalLmConfig& lm);

/// Returns the vocabulary of the texts, if it is one of Hugging Face's; otherwise adds a note.
std::optional<HuggingFaceOptions> exported_vocabulary(const Config& config, std::vector<std::string>& notes);

/// Copies the files of a tokeniser into a directory.
void copy_tokenizer(const HuggingFaceOptions& vocabulary, const std::string& directory);

}  // namespace mtf
