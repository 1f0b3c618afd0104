#include "data/vocabulary/vocabulary_options.h"

#include <fmt/format.h>

#include <type_traits>
#include <utility>

#include "data/paths.h"
#include "data/vocabulary/byte_vocabulary.h"
#include "data/vocabulary/sentencepiece_vocabulary.h"
#include "data/vocabulary/t2t_vocabulary.h"
#include "engine/base/check.h"

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
std::unique_ptr<Vocabulary> read_file(const config::Path& path, const Mark& mark, const Read& read) {
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

std::unique_ptr<Vocabulary> read(const SentencePieceOptions& options, const Mark& mark) {
  MTF_CHECK(!options.path.empty(), "the vocabulary has not been trained");
  return read_sized(options, mark, read_sentencepiece);
}

std::unique_ptr<Vocabulary> read(const BytesOptions&, const Mark&) {
  return std::make_unique<ByteVocabulary>();
}

std::unique_ptr<Vocabulary> read(const T2tOptions& options, const Mark& mark) {
  return read_sized(options, mark, read_t2t_vocabulary);
}

std::unique_ptr<Vocabulary> read(const TokenizerJsonOptions&, const Mark&) {
  MTF_CHECK(false, "the schema let a vocabulary pass that comes later");
}

template <class Options>
void add_paths(Options& options, std::vector<config::Path*>& paths) {
  if constexpr (requires { options.path; }) {
    if (!options.path.empty()) paths.push_back(&options.path);
  } else if constexpr (std::is_same_v<Options, TwoVocabularies>) {
    for (LanguageVocabulary* language : {&options.inputs, &options.targets})
      std::visit([&](auto& x) { add_paths(x, paths); }, *language);
  }
}

}  // namespace

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
}

BySide<LanguageVocabulary> by_side(const VocabularyOptions& options) {
  return std::visit(
      []<class Options>(const Options& x) -> BySide<LanguageVocabulary> {
        if constexpr (std::is_same_v<Options, TwoVocabularies>) {
          return {x.inputs, x.targets};
        } else {
          return {x, x};
        }
      },
      options);
}

bool are_apart(const VocabularyOptions& options) { return std::holds_alternative<TwoVocabularies>(options); }

std::vector<config::Path*> paths_of(VocabularyOptions& options) {
  std::vector<config::Path*> paths;
  std::visit([&](auto& x) { add_paths(x, paths); }, options);
  return paths;
}

bool is_trained(const LanguageVocabulary& options) {
  const auto* const sentencepiece = std::get_if<SentencePieceOptions>(&options);
  return sentencepiece != nullptr && sentencepiece->path.empty();
}

int64_t vocabulary_size(const LanguageVocabulary& options, const Mark& mark) {
  if (const auto* const sentencepiece = std::get_if<SentencePieceOptions>(&options)) {
    if (sentencepiece->size) return *sentencepiece->size;
    if (sentencepiece->path.empty()) return SentencePieceOptions::default_size;
  }
  if (const auto* const t2t = std::get_if<T2tOptions>(&options); t2t && t2t->size) return *t2t->size;
  return read_vocabulary(options, mark)->size();
}

Error placed_at(const Error& error, const Mark& mark) {
  std::vector<Problem> problems = error.problems();
  for (Problem& problem : problems) {
    if (!problem.mark.known()) problem.mark = mark;
  }
  return Error(std::move(problems));
}

std::unique_ptr<Vocabulary> read_vocabulary(const LanguageVocabulary& options, const Mark& mark) {
  return std::visit([&](const auto& x) { return read(x, mark); }, options);
}

}  // namespace mtf
