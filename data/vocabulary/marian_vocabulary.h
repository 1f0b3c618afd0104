// The vocabulary of a translation model of Marian in Hugging Face form (OPUS-MT): a SentencePiece model finds the pieces of a
// text, and vocab.json says which ids they have. Inputs and targets have a model each, and mostly one vocab.json.
//
//   const std::unique_ptr<Vocabulary> vocabulary = read_marian_vocabulary("source.spm", read_marian_tokens("vocab.json"), {});
//   vocabulary->encode(">>deu<< A house.")
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/vocabulary/marian_tokens.h"
#include "data/vocabulary/sentencepiece_vocabulary.h"
#include "data/vocabulary/vocabulary.h"

namespace mtf {

class MarianVocabulary final : public Vocabulary {
 public:
  /// `model`: the bytes of a .model file; `name` is for messages. `size`: ids of the model. Throws Error (kData) when the
  /// bytes are no model, and as MarianTokens::file_ids().
  MarianVocabulary(std::string_view model, const std::string& name, MarianTokens tokens,
                   std::optional<int64_t> size);

  int64_t size() const override { return std::ssize(file_ids_); }
  /// The ids of a MarianTokenizer, renumbered: a language in front (">>deu<<") is one token, and pieces that vocab.json has
  /// not are <unk>. A text that spells out </s>, <unk> or <pad> has pieces like any other.
  std::vector<int32_t> encode(std::string_view text) const override;
  std::string decode(std::span<const int32_t> ids) const override;
  std::string piece(int32_t id) const override;
  bool continues_word(int32_t id) const override;
  std::string fingerprint() const override { return fingerprint_; }
  std::unique_ptr<SubwordSampler> sampler(const SubwordSampling& sampling) const override;

 private:
  class Sampler;
  /// The id of a language in front of the text, which is taken from it, or nothing.
  std::vector<int32_t> take_language(std::string_view& text) const;
  bool has(int32_t id) const { return id >= 0 && id < size(); }
  int32_t id_of(std::string_view token) const;
  /// The bytes of a language at the beginning of a text: ">>deu<<" or an added token.
  size_t language_before(std::string_view text) const;

  SentencePieceVocabulary pieces_;
  MarianTokens tokens_;
  std::vector<int32_t> file_ids_;       ///< the file's id for each id here
  std::vector<int32_t> ids_;            ///< the id here for each id of the file
  std::vector<int32_t> ids_of_pieces_;  ///< by the id of `pieces_`
  int32_t unknown_;
  std::string fingerprint_;
};

/// The part of a fingerprint that says which tokens the ids mean: two MarianVocabularies with one vocab.json have the same. Of
/// other vocabularies it is the whole without a first token.
std::string_view numbering_of(std::string_view fingerprint);

/// Reads the SentencePiece model, plain or .gz. Throws as the constructor does, and when the file is missing.
std::unique_ptr<Vocabulary> read_marian_vocabulary(const std::string& path, MarianTokens tokens,
                                                   std::optional<int64_t> size);

}  // namespace mtf
