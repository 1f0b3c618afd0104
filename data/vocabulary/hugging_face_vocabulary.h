// Byte pair and unigram vocabularies of Hugging Face (tokenizer.json), with the ids of the library `tokenizers`, renumbered so
// that id 0 begins a text or is padding, and id 1 ends it.
//
//   const std::unique_ptr<Vocabulary> vocabulary =
//       read_hugging_face_vocabulary("llama/tokenizer.json", {.begin = "<s>", .end = "</s>"});
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "data/vocabulary/added_tokens.h"
#include "data/vocabulary/byte_pair_merges.h"
#include "data/vocabulary/pre_tokenizer.h"
#include "data/vocabulary/tokenizer_file.h"
#include "data/vocabulary/unigram_pieces.h"
#include "data/vocabulary/vocabulary.h"
#include "data/vocabulary/word_cache.h"

namespace mtf {

struct HuggingFaceRules {
  /// The token that becomes padding: what texts begin with, apart from `end`, or the padding of the model.
  std::optional<std::string> begin = {};
  std::string end;  ///< token that ends a text
  /// Ids of the model in the file's numbering; nothing: those of the tokens.
  std::optional<int64_t> size = {};
};

class HuggingFaceVocabulary final : public Vocabulary {
 public:
  /// `json`: the bytes of a tokenizer.json; `name` is for messages. Throws Error: kData for a file that is damaged, or needs
  /// what is not supported; kConfig for rules that do not fit it.
  HuggingFaceVocabulary(std::string_view json, const std::string& name, const HuggingFaceRules& rules);

  int64_t size() const override { return std::ssize(file_ids_); }
  /// The ids of `tokenizers` without its special tokens around the text. A token of the file's list that the text spells out
  /// has its id; `begin` gives nothing. Bytes that are no UTF-8 are U+FFFD.
  std::vector<int32_t> encode(std::string_view text) const override { return encode(text, nullptr); }
  std::string decode(std::span<const int32_t> ids) const override;
  /// The text of the token in a vocabulary of bytes, with bytes that are no UTF-8 as <0xE4>.
  std::string piece(int32_t id) const override;
  /// A word begins behind a blank, or with its sign; an added token is no part of a word.
  bool continues_word(int32_t id) const override;
  std::string fingerprint() const override { return fingerprint_; }
  /// Draws the merges of a byte pair model; a unigram model has no sampler.
  std::unique_ptr<SubwordSampler> sampler(const SubwordSampling& sampling) const override;

 private:
  class Sampler;
  HuggingFaceVocabulary(TokenizerFile file, const std::string& name, const HuggingFaceRules& rules);
  void number_ids(const HuggingFaceRules& rules, const std::string& name);
  int32_t required_id(const std::string& key, const std::string& token, const std::string& name) const;
  bool has(int32_t id) const { return id >= 0 && id < size(); }
  const std::string& token_of(int32_t id) const;
  std::vector<int32_t> encode(std::string_view text, const MergeDropout* dropout) const;
  void append_words(std::string_view part, bool begins_text, WordDivision& division,
                    const MergeDropout* dropout, std::vector<int32_t>& ids) const;
  size_t end_of_part(std::string_view word) const;
  void append_word(std::string_view word, const MergeDropout* dropout, std::vector<int32_t>& ids) const;

  std::vector<std::string> tokens_;  ///< the file's, by its ids
  std::vector<NormalizerStep> normalizer_;
  std::vector<DecoderStep> decoder_;
  bool is_byte_level_;
  std::variant<BytePairMerges, UnigramPieces> model_;
  PreTokenizer pre_tokenizer_;
  AddedTokens added_tokens_, normalized_tokens_;
  std::vector<int32_t> file_ids_;  ///< the file's id for each id here
  std::vector<int32_t> ids_;       ///< the id here for each id of the file
  std::vector<bool> is_added_;     ///< by id
  std::string fingerprint_;
  std::unique_ptr<WordCache> words_;
};

/// Reads a tokenizer.json, plain or .gz. Throws as the constructor does, and when the file is missing.
std::unique_ptr<Vocabulary> read_hugging_face_vocabulary(const std::string& path,
                                                         const HuggingFaceRules& rules);

}  // namespace mtf
