#include "data/vocabulary/vocabulary_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "data/paths.h"
#include "data/vocabulary/byte_vocabulary.h"
#include "data/vocabulary/extra_ids.h"
#include "data/vocabulary/first_token.h"
#include "data/vocabulary/hugging_face_vocabulary.h"
#include "data/vocabulary/marian_vocabulary.h"
#include "data/vocabulary/sentencepiece_vocabulary.h"
#include "data/vocabulary/t2t_vocabulary.h"
#include "data/vocabulary/tokenizer_file.h"
#include "data/vocabulary/wordpiece_vocabulary.h"
#include "engine/base/check.h"
#include "engine/base/placed_at.h"

namespace mtf {
namespace {

/// What SentencePiece accepts.
constexpr config::Bounds kCoverage{0.98, 1.0, false};

const Mark& place_of(const config::Path& path, const Mark& otherwise) {
  return path.mark.known() ? path.mark : otherwise;
}

/// The one file that `path` means. Throws Error (kConfig).
std::string find_file(const config::Path& path, const Mark& mark) {
  std::vector<Problem> problems;
  const std::vector<std::string> files = find_files({{path.text, place_of(path, mark)}}, problems);
  if (!problems.empty()) throw Error(std::move(problems));
  if (files.size() != 1) {
    throw Error(ErrorKind::kConfig, place_of(path, mark),
                fmt::format("{} files match {}", files.size(), path.text), "the path of one vocabulary");
  }
  return files[0];
}

/// Problems of the file are shown at the path in the configuration.
template <class Read>
auto read_file(const config::Path& path, const Mark& mark, const Read& read) {
  const std::string file = find_file(path, mark);
  try {
    return read(file);
  } catch (const Error& error) {
    throw placed_at(error, place_of(path, mark));
  }
}

/// The file must have as many pieces as `size` says.
template <class Options, class Read>
std::unique_ptr<Vocabulary> read_sized(const Options& options, const Mark& mark, const Read& read) {
  auto vocabulary = read_file(options.path, mark, read);
  if (options.size && *options.size != vocabulary->size()) {
    throw Error(ErrorKind::kData, place_of(options.path, mark),
                fmt::format("{} has {} pieces, but `size` says {}", options.path.text, vocabulary->size(),
                            *options.size),
                fmt::format("`size: {}`, or no `size`", vocabulary->size()));
  }
  return vocabulary;
}

void describe_first_token(config::Visitor& visit, std::optional<std::string>& token) {
  visit("first_token", token,
        "the token that stands before each text, such as `eng_Latn`, the language in an NLLB; a decoder is "
        "given it; null: none, or the texts themselves begin with one");
}

const config::Registration<VocabularyOptions, SentencePieceOptions> sentencepiece_registration;
const config::Registration<VocabularyOptions, BytesOptions> bytes_registration;
const config::Registration<VocabularyOptions, T2tOptions> t2t_registration;
const config::Registration<VocabularyOptions, WordPieceOptions> wordpiece_registration;
const config::Registration<VocabularyOptions, HuggingFaceOptions> hugging_face_registration;
const config::Registration<VocabularyOptions, MarianOptions> marian_registration;

}  // namespace

std::vector<config::Path*> given_paths(std::vector<config::Path*> paths) {
  std::erase_if(paths, [](const config::Path* path) { return path->empty(); });
  return paths;
}

std::unique_ptr<Vocabulary> SentencePieceOptions::read(const Mark& mark) const {
  MTF_CHECK(!path.empty(), "the vocabulary has not been trained");
  return with_extra_ids(read_sized(*this, mark, read_sentencepiece), extra_ids);
}

std::optional<int64_t> SentencePieceOptions::declared_size() const {
  if (!size && !path.empty()) return std::nullopt;
  return size.value_or(default_size) + extra_ids;
}

std::unique_ptr<Vocabulary> BytesOptions::read(const Mark&) const {
  return with_extra_ids(std::make_unique<ByteVocabulary>(), extra_ids);
}

std::unique_ptr<Vocabulary> T2tOptions::read(const Mark& mark) const {
  return read_sized(*this, mark, read_t2t_vocabulary);
}

std::unique_ptr<Vocabulary> WordPieceOptions::read(const Mark& mark) const {
  const WordPieceRules rules{.lowercase = lowercase,
                             .strip_accents = strip_accents.value_or(lowercase),
                             .chinese_characters = chinese_characters,
                             .longest_word = longest_word};
  return read_sized(*this, mark,
                    [&](const std::string& file) { return read_wordpiece_vocabulary(file, rules); });
}

void describe(config::Visitor& visit, WordPieceOptions& options) {
  visit("path", options.path, "file of pieces, one a line (vocab.txt), the first of which is [PAD]",
        config::required);
  visit("size", options.size, "its lines, for run.mode=explain where it is not; null: what the file has",
        config::at_least(4));
  visit("lowercase", options.lowercase, "texts become lower case; false: for a cased vocabulary");
  visit("strip_accents", options.strip_accents, "letters lose their accents (default: as `lowercase`)");
  visit("chinese_characters", options.chinese_characters, "each Chinese character is a word");
  visit("longest_word", options.longest_word,
        "characters of the longest word that is divided into pieces; a longer one is unknown",
        config::positive);
}

std::unique_ptr<Vocabulary> HuggingFaceOptions::read(const Mark& mark) const {
  const HuggingFaceRules rules{.begin = begin, .end = end, .size = size};
  auto vocabulary = read_file(
      path, mark, [&](const std::string& file) { return read_hugging_face_vocabulary(file, rules); });
  return with_first_token(std::move(vocabulary), first_token, place_of(path, mark));
}

/// Without a token that texts begin with there is one id more: padding.
std::optional<int64_t> HuggingFaceOptions::declared_size() const {
  if (!size) return std::nullopt;
  return *size + (begin ? 0 : 1);
}

void describe(config::Visitor& visit, HuggingFaceOptions& options) {
  visit("path", options.path, "tokenizer.json of a model of Hugging Face", config::required);
  visit("begin", options.begin,
        "the token that texts of the model begin with, or padding of an encoder, which becomes id 0; null: "
        "none but `end`, as in GPT-2");
  visit("end", options.end, "the token that ends a text, which becomes id 1", config::required);
  visit("size", options.size,
        "ids of the model (vocab_size of its config.json), of which the last may have no token, and beyond "
        "which "
        "added tokens are text; null: what the file has",
        config::at_least(2), config::at_most(kMostFileIds));
  describe_first_token(visit, options.first_token);
}

std::unique_ptr<Vocabulary> MarianOptions::read(const Mark& mark) const {
  MarianTokens tokens =
      read_file(ids, mark, [&](const std::string& file) { return read_marian_tokens(file, added_tokens); });
  auto vocabulary = read_file(path, mark, [&](const std::string& file) {
    return read_marian_vocabulary(file, std::move(tokens), size);
  });
  return with_first_token(std::move(vocabulary), first_token, place_of(path, mark));
}

void describe(config::Visitor& visit, MarianOptions& options) {
  visit("path", options.path, "the SentencePiece model of this side: source.spm or target.spm",
        config::required);
  visit("ids", options.ids, "vocab.json, which says what ids the pieces have", config::required);
  visit("size", options.size,
        "ids of the model (vocab_size of its config.json), of which the last may have no token; null: what "
        "the file has",
        config::at_least(4), config::at_most(kMostFileIds));
  visit("added_tokens", options.added_tokens,
        "tokens behind those of `ids`, in this order, as the languages of an M2M100; at the beginning of a "
        "text each is one token");
  describe_first_token(visit, options.first_token);
}

namespace {

void describe_extra_ids(config::Visitor& visit, int64_t& extra_ids) {
  visit("extra_ids", extra_ids,
        "ids behind the others that no text has, the last one being <extra_id_0>: sentinels for `objective`; "
        "T5 "
        "has 100",
        config::non_negative, config::at_most(kMostExtraIds));
}

}  // namespace

void describe(config::Visitor& visit, BytesOptions& options) { describe_extra_ids(visit, options.extra_ids); }

void describe(config::Visitor& visit, SentencePieceOptions& options) {
  visit("path", options.path, "a SentencePiece model; none: one is trained on data.train for a new run");
  visit(
      "size", options.size,
      fmt::format("pieces, those for padding, end and unknown text included; null: what the file has, or {}",
                  SentencePieceOptions::default_size),
      config::at_least(4));
  visit("model", options.model, "of a vocabulary that is trained: how its pieces are chosen");
  visit("normalization", options.normalization,
        "of a vocabulary that is trained: nmt_nfkc unifies characters and blanks, none keeps texts as they "
        "are");
  visit("character_coverage", options.character_coverage,
        "of a vocabulary that is trained: share of the text's characters that get pieces of their own",
        kCoverage);
  visit("byte_fallback", options.byte_fallback,
        "of a vocabulary that is trained: other characters are spelled in bytes; false: they are unknown");
  describe_extra_ids(visit, options.extra_ids);
}

BySide<LanguageVocabulary> by_side(const VocabularyChoice& options) {
  if (const auto* two = std::get_if<TwoVocabularies>(&options)) return {two->inputs, two->targets};
  const auto& one = std::get<LanguageVocabulary>(options);
  return {one, one};
}

bool are_apart(const VocabularyChoice& options) { return std::holds_alternative<TwoVocabularies>(options); }

std::vector<config::Path*> paths_of(VocabularyChoice& options) {
  std::vector<LanguageVocabulary*> languages;
  if (auto* two = std::get_if<TwoVocabularies>(&options))
    languages = {&two->inputs, &two->targets};
  else
    languages = {&std::get<LanguageVocabulary>(options)};
  std::vector<config::Path*> paths;
  for (LanguageVocabulary* language : languages) {
    if (!language->empty()) std::ranges::copy((*language)->files(), std::back_inserter(paths));
  }
  return paths;
}

int64_t vocabulary_size(const LanguageVocabulary& options, const Mark& mark) {
  if (const std::optional<int64_t> size = options->declared_size()) return *size;
  return options->read(mark)->size();
}

std::unique_ptr<Vocabulary> read_vocabulary(const LanguageVocabulary& options, const Mark& mark) {
  return options->read(mark);
}

}  // namespace mtf
