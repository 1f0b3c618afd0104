// A model of SentencePiece as a Vocabulary.
//
//   const std::unique_ptr<Vocabulary> vocabulary = read_sentencepiece("vocabulary.model");
//
// The model decides what happens to a text before it is cut into pieces, and so what decode(encode(text)) is:
// - Its normalisation is applied. With that of most models (nmt_nfkc) compatibility characters become plain
//   ones, most control characters go, blanks at the ends go and several become one: decode(encode(text)) is
//   then the normalised text. Without normalisation it is the text, but that U+2581 becomes a blank.
// - Bytes that are no UTF-8 become U+FFFD, one for each.
// - Characters without a piece are spelled in bytes where the model has pieces for these; otherwise they are
//   the unknown piece, which is written as " ⁇ ".
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/vocabulary/piece_lattice.h"
#include "data/vocabulary/vocabulary.h"

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace mtf {

class WordCache;
struct CachedWord;

class SentencePieceVocabulary final : public Vocabulary {
 public:
  /// `model`: the bytes of a .model file; `name` is for messages. Ids are those of the model where it has
  /// padding as 0 and the end of sequence as 1. Otherwise these two change places with what has the ids 0 and
  /// 1; a model without padding or end of sequence gets them, and is as much larger. Throws Error (kData)
  /// when the bytes are no model.
  SentencePieceVocabulary(std::string_view model, const std::string& name);
  ~SentencePieceVocabulary() override;

  int64_t size() const override { return static_cast<int64_t>(to_model_.size()); }
  /// Exactly the library's ids. They are those of the text's words where the model allows that, each of which
  /// is encoded once.
  std::vector<int32_t> encode(std::string_view text) const override;
  std::string decode(std::span<const int32_t> ids) const override;
  std::string piece(int32_t id) const override;
  /// Words begin with "▁".
  bool continues_word(int32_t id) const override;
  std::string fingerprint() const override { return fingerprint_; }

  /// The ids of encode(), from the library in one go.
  std::vector<int32_t> encode_at_once(std::string_view text) const;

  /// The pieces themselves; what the model does not know stands as in the text.
  std::vector<std::string> pieces(std::string_view text) const;
  /// The text of pieces; one that the model does not know stands as it is.
  std::string join(const std::vector<std::string>& pieces) const;

  bool is_unknown(int32_t id) const;

  /// Logarithm of the piece's probability, or for byte pair encoding minus its rank; 0 of an id that the
  /// model has not.
  float score(int32_t id) const;
  std::unique_ptr<SubwordSampler> sampler(const SubwordSampling& sampling) const override;

 private:
  friend class SentencePieceSampler;
  /// The bytes of the .model file.
  std::string model() const;
  bool has_words() const { return words_ != nullptr; }
  void place_special_ids();
  int32_t ours(int32_t id) const { return from_model_.empty() ? id : from_model_[static_cast<size_t>(id)]; }
  void prepare_words(std::string_view model);
  std::optional<CachedWord> encode_word(std::string_view word, std::vector<int32_t>& ids) const;
  std::string normalized(std::string_view word, std::vector<int32_t>* ids = nullptr) const;
  std::string normalized(std::string_view word, const CachedWord& known) const;
  size_t end_of_word(std::string_view text, size_t begin) const;
  std::vector<int32_t> encode_with_sums(std::string_view text) const;
  bool append_cached(const CachedWord& word, float& sum, std::vector<int32_t>& ids) const;
  void append_ids(std::span<const PieceLattice::Part> parts, std::vector<int32_t>& ids) const;

  std::unique_ptr<sentencepiece::SentencePieceProcessor> processor_;
  std::vector<int32_t> to_model_;    ///< the model's id of each of ours, or that it has none
  std::vector<int32_t> from_model_;  ///< empty: the same ids
  std::string fingerprint_;
  char line_end_ = ' ';                    ///< '\n' where the model takes it for a blank
  bool keeps_blanks_ = false;              ///< a word without characters is a "▁"
  bool spells_unknown_ = false;            ///< in bytes
  std::unique_ptr<WordCache> words_;       ///< null: texts are encoded at once
  std::unique_ptr<PieceLattice> lattice_;  ///< of a unigram model with words
};

/// Reads a .model file, plain or .gz. Throws Error (kData) when it is missing or damaged.
std::unique_ptr<Vocabulary> read_sentencepiece(const std::string& path);

}  // namespace mtf
