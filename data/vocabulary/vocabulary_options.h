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
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "data/sides.h"
#include "data/vocabulary/vocabulary.h"
#include "engine/config/choice.h"

namespace mtf {

/// The vocabulary of one language. A vocabulary is one file with its options and its registration.
struct VocabularyOptions {
  static constexpr std::string_view default_type = "sentencepiece";  // until the options are read
  virtual ~VocabularyOptions() = default;
  /// Opens the vocabulary. Throws Error (kData) at the place of the path in the configuration, or at `mark`, when the
  /// file is missing, damaged, or has another size than `size` says.
  virtual std::unique_ptr<Vocabulary> read(const Mark& mark) const = 0;
  /// Number of ids, where it is known without a file.
  virtual std::optional<int64_t> declared_size() const { return std::nullopt; }
  /// The files that are given.
  virtual std::vector<config::Path*> files() { return {}; }
  /// It has no file of its own but is trained (train_vocabulary.h).
  virtual bool is_trained() const { return false; }
};
using LanguageVocabulary = config::Choice<VocabularyOptions>;

/// Those of `paths` that are not empty.
std::vector<config::Path*> given_paths(std::vector<config::Path*> paths);

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

/// How SentencePiece finds pieces of words in texts.
struct SentencePieceTraining {
  /// The size of a vocabulary when nothing is said.
  static constexpr int64_t default_size = 32000;

  std::optional<int64_t> size = {};
  SentencePieceModel model = SentencePieceModel::kUnigram;
  TextNormalization normalization = TextNormalization::kNmtNfkc;
  double character_coverage = 0.9995;
  bool byte_fallback = true;
};

/// A SentencePiece model: that of a file, or one that is trained.
struct SentencePieceOptions final : VocabularyOptions, SentencePieceTraining {
  static constexpr std::string_view type_name = "sentencepiece";
  static constexpr std::array common_names = {
      CommonName{"bpe", "`{type: sentencepiece, model: bpe}`"}, CommonName{"unigram", "`sentencepiece`"},
      CommonName{"spm", "`sentencepiece`"}, CommonName{"words", "`sentencepiece`"}};
  static constexpr bool type_required = true;

  config::Path path = {};
  int64_t extra_ids = 0;

  std::unique_ptr<Vocabulary> read(const Mark& mark) const override;
  std::optional<int64_t> declared_size() const override;
  std::vector<config::Path*> files() override { return given_paths({&path}); }
  bool is_trained() const override { return path.empty(); }
};

void describe(config::Visitor& visit, SentencePieceOptions& options);

/// Each byte of UTF-8 is a token.
struct BytesOptions final : VocabularyOptions {
  int64_t extra_ids = 0;

  static constexpr std::string_view type_name = "bytes";
  static constexpr std::array common_names = {CommonName{"characters", "`bytes`"},
                                              CommonName{"chars", "`bytes`"}, CommonName{"byt5", "`bytes`"}};
  static constexpr bool type_required = true;

  std::unique_ptr<Vocabulary> read(const Mark& mark) const override;
};

void describe(config::Visitor& visit, BytesOptions& options);

/// A file of subwords of tensor2tensor.
struct T2tOptions final : VocabularyOptions {
  static constexpr std::string_view type_name = "t2t";
  static constexpr std::array common_names = {CommonName{"subwords", "`t2t` or `sentencepiece`"}};
  static constexpr bool type_required = true;
  config::Path path;
  std::optional<int64_t> size = {};

  std::unique_ptr<Vocabulary> read(const Mark& mark) const override;
  std::optional<int64_t> declared_size() const override { return size; }
  std::vector<config::Path*> files() override { return given_paths({&path}); }
};

inline void describe(config::Visitor& visit, T2tOptions& options) {
  visit("path", options.path, "file of subwords, one a line (vocab.NAME.SIZE.subwords)", config::required);
  visit("size", options.size, "its lines, for run.mode=explain where it is not; null: what the file has",
        config::at_least(4));
}

/// A vocabulary of BERT.
struct WordPieceOptions final : VocabularyOptions {
  static constexpr std::string_view type_name = "wordpiece";
  static constexpr std::array common_names = {CommonName{"bert", "`wordpiece`"}};
  static constexpr bool type_required = true;
  config::Path path;
  std::optional<int64_t> size = {};
  bool lowercase = true;
  std::optional<bool> strip_accents = {};
  bool chinese_characters = true;
  int64_t longest_word = 200;

  std::unique_ptr<Vocabulary> read(const Mark& mark) const override;
  std::optional<int64_t> declared_size() const override { return size; }
  std::vector<config::Path*> files() override { return given_paths({&path}); }
};

void describe(config::Visitor& visit, WordPieceOptions& options);

/// A byte pair vocabulary of Hugging Face.
struct HuggingFaceOptions final : VocabularyOptions {
  static constexpr std::string_view type_name = "hugging_face";
  static constexpr std::array common_names = {
      CommonName{"tokenizers", "`hugging_face`"}, CommonName{"tokenizer_json", "`hugging_face`"},
      CommonName{"byte_level_bpe", "`hugging_face`"}, CommonName{"gpt2", "`hugging_face`"},
      CommonName{"llama", "`hugging_face`"}};
  static constexpr bool type_required = true;
  config::Path path;
  std::optional<std::string> begin = {};
  std::string end;
  std::optional<int64_t> size = {};
  std::optional<std::string> first_token = {};

  std::unique_ptr<Vocabulary> read(const Mark& mark) const override;
  std::optional<int64_t> declared_size() const override;
  std::vector<config::Path*> files() override { return given_paths({&path}); }
};

void describe(config::Visitor& visit, HuggingFaceOptions& options);

/// One side of a translation model of Marian, or of an M2M100, in Hugging Face form.
struct MarianOptions final : VocabularyOptions {
  static constexpr std::string_view type_name = "marian";
  static constexpr std::array common_names = {CommonName{"opus", "`marian`"},
                                              CommonName{"opus_mt", "`marian`"}};
  static constexpr bool type_required = true;
  config::Path path, ids;
  std::optional<int64_t> size = {};
  std::vector<std::string> added_tokens = {};
  std::optional<std::string> first_token = {};

  std::unique_ptr<Vocabulary> read(const Mark& mark) const override;
  std::optional<int64_t> declared_size() const override { return size; }
  std::vector<config::Path*> files() override { return given_paths({&path, &ids}); }
};

void describe(config::Visitor& visit, MarianOptions& options);

/// Two languages apart.
struct TwoVocabularies {
  LanguageVocabulary inputs;
  LanguageVocabulary targets;
};

inline void describe(config::Visitor& visit, TwoVocabularies& options) {
  visit("inputs", options.inputs, "vocabulary of the inputs alone", config::required);
  visit("targets", options.targets, "vocabulary of the targets alone", config::required);
}

/// Section `data.vocabulary`: one vocabulary for all texts, or one for each side.
using VocabularyChoice = std::variant<LanguageVocabulary, TwoVocabularies>;

/// The vocabularies of both sides: the same twice, unless they are apart.
BySide<LanguageVocabulary> by_side(const VocabularyChoice& options);
bool are_apart(const VocabularyChoice& options);

/// The paths that are given.
std::vector<config::Path*> paths_of(VocabularyChoice& options);

/// Number of ids. A file is opened only where `size` is not given; then throws as read_vocabulary does.
int64_t vocabulary_size(const LanguageVocabulary& options, const Mark& mark = {});

/// Opens the vocabulary; one that is trained must have got its path. Throws Error (kData) at the place of the
/// path in the configuration when the file is missing, damaged, or has another size than `size` says.
std::unique_ptr<Vocabulary> read_vocabulary(const LanguageVocabulary& options, const Mark& mark = {});

}  // namespace mtf
