// `data.vocabulary`: how texts become token ids. One vocabulary for all texts, or one for each side.
//
//   const BySide<LanguageVocabulary> apart = by_side(options);
//   const int64_t size = vocabulary_size(apart.targets);
//   const std::unique_ptr<Vocabulary> vocabulary = read_vocabulary(apart.targets, mark);
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "data/sides.h"
#include "data/vocabulary/vocabulary.h"
#include "engine/config/schema.h"

namespace mtf {

enum class SentencePieceModel { kUnigram, kBpe };
inline config::EnumNames enum_names(SentencePieceModel) {
  return {{"unigram", SentencePieceModel::kUnigram}, {"bpe", SentencePieceModel::kBpe}};
}

/// kNmtNfkc: Unicode's compatibility forms (ﬁ becomes fi, ² becomes 2), without most control characters, one
/// blank for all white space between two words. kNone: texts as they are.
enum class TextNormalization { kNmtNfkc, kNone };
inline config::EnumNames enum_names(TextNormalization) {
  return {{"nmt_nfkc", TextNormalization::kNmtNfkc}, {"none", TextNormalization::kNone}};
}

/// Pieces of words that SentencePiece has found in texts.
struct SentencePieceOptions {
  static constexpr std::string_view type_name = "sentencepiece";
  static constexpr std::array common_names = {
      CommonName{"bpe", "`{type: sentencepiece, model: bpe}`"}, CommonName{"unigram", "`sentencepiece`"},
      CommonName{"spm", "`sentencepiece`"}, CommonName{"wordpiece", "`sentencepiece`"},
      CommonName{"words", "`sentencepiece`"}};
  static constexpr bool type_required = true;
  /// Of a vocabulary that is trained when nothing is said.
  static constexpr int64_t default_size = 32000;

  config::Path path = {};
  std::optional<int64_t> size = {};
  SentencePieceModel model = SentencePieceModel::kUnigram;
  TextNormalization normalization = TextNormalization::kNmtNfkc;
  double character_coverage = 0.9995;
  bool byte_fallback = true;
};

void describe(config::Visitor& visit, SentencePieceOptions& options);

/// Each byte of UTF-8 is a token.
struct BytesOptions {
  static constexpr std::string_view type_name = "bytes";
  static constexpr std::array common_names = {CommonName{"characters", "`bytes`"},
                                              CommonName{"chars", "`bytes`"}, CommonName{"byt5", "`bytes`"}};
  static constexpr bool type_required = true;
};

inline void describe(config::Visitor&, BytesOptions&) {}

/// A file of subwords of tensor2tensor.
struct T2tOptions {
  static constexpr std::string_view type_name = "t2t";
  static constexpr std::array common_names = {CommonName{"subwords", "`t2t` or `sentencepiece`"}};
  static constexpr bool type_required = true;
  config::Path path;
  std::optional<int64_t> size = {};
};

inline void describe(config::Visitor& visit, T2tOptions& options) {
  visit("path", options.path, "file of subwords, one a line (vocab.NAME.SIZE.subwords)", config::required);
  visit("size", options.size, "its lines, for run.mode=explain where it is not; null: what the file has",
        config::at_least(4));
}

/// A type of vocabulary whose reader comes later.
struct TokenizerJsonOptions {
  static constexpr std::string_view type_name = "tokenizer_json";
  static constexpr bool later = true;
};

/// The vocabulary of one side.
using LanguageVocabulary = std::variant<SentencePieceOptions, BytesOptions, T2tOptions, TokenizerJsonOptions>;

/// Two languages apart.
struct TwoVocabularies {
  LanguageVocabulary inputs;
  LanguageVocabulary targets;
};

inline void describe(config::Visitor& visit, TwoVocabularies& options) {
  visit("inputs", options.inputs, "vocabulary of the inputs alone", config::required);
  visit("targets", options.targets, "vocabulary of the targets alone", config::required);
}

using VocabularyOptions =
    std::variant<SentencePieceOptions, BytesOptions, T2tOptions, TokenizerJsonOptions, TwoVocabularies>;

/// The vocabularies of both sides: the same twice, unless they are apart.
BySide<LanguageVocabulary> by_side(const VocabularyOptions& options);
bool are_apart(const VocabularyOptions& options);

/// The paths that are given.
std::vector<config::Path*> paths_of(VocabularyOptions& options);

/// Number of ids. A file is opened only where `size` is not given; then throws as read_vocabulary does.
int64_t vocabulary_size(const LanguageVocabulary& options, const Mark& mark = {});

/// True for a vocabulary that has no file of its own but is trained (train_vocabulary.h).
bool is_trained(const LanguageVocabulary& options);

/// `error` with `mark` as the place of its problems that have none.
Error placed_at(const Error& error, const Mark& mark);

/// Opens the vocabulary; one that is trained must have got its path. Throws Error (kData) at the place of the
/// path in the configuration when the file is missing, damaged, or has another size than `size` says.
std::unique_ptr<Vocabulary> read_vocabulary(const LanguageVocabulary& options, const Mark& mark = {});

}  // namespace mtf
