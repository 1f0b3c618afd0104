// WordPiece vocabularies (vocab.txt), with the ids that the tokeniser of the original BERT gives.
//
//   const std::unique_ptr<Vocabulary> vocabulary = read_wordpiece_vocabulary("vocab.txt", {.lowercase = true});
//
// Control and format characters are dropped, each Chinese character and each punctuation mark becomes a word, and the rest is
// divided at white space. Of a word the longest piece that it begins with is taken again and again; those behind the first
// begin with ##. A word that cannot be spelled is [UNK]. Devlin et al., BERT, 2019; Wu et al., Google's Neural Machine
// Translation System, 2016, §4.1.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/vocabulary/vocabulary.h"

namespace mtf {

struct WordPieceRules {
  bool lowercase = true;
  bool strip_accents = true;  ///< removes marks such as accents (Unicode's category Mn) after decomposition
  bool chinese_characters = true;  ///< each is a word
  int64_t longest_word = 200;      ///< characters; a longer word is unknown
};

class WordPieceVocabulary final : public Vocabulary {
 public:
  /// One piece a line; the id of a piece is its line, from 0. The first is [PAD], and [UNK] is one of them. `name` is for
  /// messages. Throws Error (kData) for another file.
  WordPieceVocabulary(std::string_view lines, const std::string& name, const WordPieceRules& rules);

  int64_t size() const override { return static_cast<int64_t>(pieces_.size()); }
  /// Bytes that are no UTF-8 are dropped.
  std::vector<int32_t> encode(std::string_view text) const override;
  /// Words with a blank between them, without [PAD], [CLS] and [SEP].
  std::string decode(std::span<const int32_t> ids) const override;
  std::string piece(int32_t id) const override;
  bool continues_word(int32_t id) const override { return piece(id).starts_with(kContinuation); }
  std::string fingerprint() const override { return fingerprint_; }

 private:
  static constexpr std::string_view kContinuation = "##";
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  /// The text without what is dropped, with blanks for white space and around Chinese characters, decomposed as the rules say.
  std::u32string cleaned(std::string_view text) const;
  void append_word(std::u32string_view word, std::vector<int32_t>& ids) const;

  WordPieceRules rules_;
  std::vector<std::string> pieces_;
  std::unordered_map<std::string, int32_t, Hash, std::equal_to<>> ids_;
  size_t longest_ = 0;  ///< bytes of a piece
  int32_t unknown_ = 0;
  std::string fingerprint_;
};

/// Reads a vocab.txt, plain or .gz. Throws Error (kData) when it is missing or something else.
std::unique_ptr<Vocabulary> read_wordpiece_vocabulary(const std::string& path, const WordPieceRules& rules);

}  // namespace mtf
