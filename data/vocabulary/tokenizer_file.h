// A tokenizer.json of Hugging Face's library `tokenizers`: a byte pair encoding or a unigram model, and what is done to texts
// around it.
//
//   const TokenizerFile file = parse_tokenizer_file(bytes, "llama/tokenizer.json");
//
// Steps that other steps can express are replaced by these: ByteLevel's rule for words, Digits, Metaspace and WhitespaceSplit
// by SplitAtPattern. What the file says about padding, truncation and tokens around texts (post_processor) is not read: a model
// here begins and ends texts itself.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "data/vocabulary/character_map.h"
#include "data/vocabulary/pattern_matcher.h"

namespace mtf {

/// No model has more ids; the tables of a vocabulary take 40 bytes for each.
inline constexpr int64_t kMostFileIds = 10'000'000;

/// A token that is found in a text before the text is divided into words.
struct AddedToken {
  std::string text;
  int32_t id = 0;
  bool is_whole_word = false;  ///< not beside a character of a word
  bool takes_blanks_before = false;
  bool takes_blanks_behind = false;
  bool is_normalized = false;  ///< normalised like the text, in which it is found after normalisation
};

/// One of Unicode's normalisation forms.
struct NormalizeUnicode {
  bool is_compatible = false;  ///< compatibility characters become plain ones
  bool is_composed = true;
};
/// A normaliser of SentencePiece (`Precompiled`).
struct MapCharacters {
  std::shared_ptr<const CharacterMap> map;
};
/// Removes white space at the ends of a text.
struct StripBlanks {
  bool at_begin = true, at_end = true;
};
/// `text` in front of a text that is not empty.
struct PrependText {
  std::string text;
};
/// `content` for each `text`.
struct ReplaceText {
  std::string text, content;
};
/// `content` for each match of a regular expression.
struct ReplacePattern {
  std::shared_ptr<const SearchPattern> pattern;
  std::string content;
};
using NormalizerStep =
    std::variant<NormalizeUnicode, MapCharacters, StripBlanks, PrependText, ReplaceText, ReplacePattern>;

/// Writes `sign` for each blank, and in front of words that do not begin with it.
struct SpellBlanks {
  enum class Front { kAlways, kBeginOfText, kNever };
  std::string sign;
  Front front = Front::kAlways;
};
/// Divides a text at what matches a pattern. `inverted`: what lies between matches counts as them.
struct SplitAtPattern {
  enum class Matches { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };
  std::string pattern;
  bool is_regex = true;
  Matches matches = Matches::kIsolated;
  bool inverted = false;
};
using PreTokenizerStep = std::variant<SpellBlanks, SplitAtPattern>;

/// Tokens as characters that stand for bytes (byte_characters.h) become one text.
struct DecodeBytes {};
/// Tokens such as <0xE4> become characters, or U+FFFD for each byte where they are no UTF-8.
struct DecodeByteTokens {};
/// All tokens become one.
struct FuseTokens {};
/// Removes up to so many of a character at the ends of a token.
struct StripToken {
  char32_t character = U' ';
  int64_t at_begin = 0, at_end = 0;
};
/// Blanks for a sign, and nothing for it in the first token if `strips_first`.
struct DecodeBlanks {
  char32_t sign = 0;
  bool strips_first = true;
};
using DecoderStep =
    std::variant<DecodeBytes, DecodeByteTokens, FuseTokens, StripToken, DecodeBlanks, ReplaceText>;

/// What byte pair encodings and unigram models share.
struct TokenModel {
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::unordered_map<std::string, int32_t, Hash, std::equal_to<>> ids;
  std::optional<int32_t> unknown = {};  ///< nothing: unknown characters give no token
  bool falls_back_to_bytes = false;     ///< tokens such as <0xE4> for an unknown character

  std::optional<int32_t> find_id(std::string_view token) const;
  /// Appends the tokens of the bytes of a text, unless one of them has none; then returns false.
  bool append_byte_tokens(std::string_view text, std::vector<int32_t>& to) const;
};

struct BytePairModel : TokenModel {
  struct Merge {
    int32_t left, right, merged;
  };
  std::vector<Merge> merges;  ///< the first one is done first
  bool fuses_unknown = false;
  bool ignores_merges = false;  ///< where a word is a token
  bool is_byte_level = false;   ///< bytes of words are written as characters (byte_characters.h)
};

/// `unknown` is given.
struct UnigramModel : TokenModel {
  std::vector<double> scores;  ///< logarithms of the tokens' probabilities, by id
};

struct TokenizerFile {
  /// Removes added tokens with ids from `size` on, which have no row in a model of so many ids.
  void drop_added_from(int64_t size);
  bool is_byte_level() const {
    const auto* const pairs = std::get_if<BytePairModel>(&model);
    return pairs != nullptr && pairs->is_byte_level;
  }

  std::variant<BytePairModel, UnigramModel> model;
  std::vector<AddedToken> added_tokens;
  std::vector<std::string> tokens;  ///< by id, added ones included; empty: no token has the id
  std::vector<NormalizerStep> normalizer;
  std::vector<PreTokenizerStep> pre_tokenizer;
  std::vector<DecoderStep> decoder;
};

/// Parses the bytes of a file. Throws Error (kData) for one that is damaged, or needs what is not supported; `name` is for
/// messages.
TokenizerFile parse_tokenizer_file(std::string_view bytes, const std::string& name);

}  // namespace mtf
