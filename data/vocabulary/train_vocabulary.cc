#include "data/vocabulary/train_vocabulary.h"

#include <fmt/format.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>

#include "data/vocabulary/sentencepiece_vocabulary.h"
#include "engine/base/counted.h"
#include "engine/base/error.h"
#include "engine/base/file.h"
#include "engine/base/file_lock.h"
#include "engine/base/hash.h"
#include "engine/base/placed_at.h"
#include "engine/base/printable.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;

/// The library passes over longer ones.
constexpr size_t kLongestSentence = 4000;
/// Sums are split by threads, and rounding depends on how: always the same number, whatever the machine has.
constexpr int kThreads = 16;
/// Messages of the library below this level are not printed: only of what ends the process.
constexpr int kFatal = 3;

int64_t size_of(const SentencePieceTraining& options) {
  return options.size.value_or(SentencePieceTraining::default_size);
}

class Sentences final : public sentencepiece::SentenceIterator {
 public:
  explicit Sentences(const std::vector<std::string>& texts) : texts_(texts) {}
  bool done() const override { return next_ == texts_.size(); }
  void Next() override { ++next_; }
  const std::string& value() const override { return texts_[next_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  const std::vector<std::string>& texts_;
  size_t next_ = 0;
};

std::unordered_map<std::string, std::string> arguments(const SentencePieceTraining& options) {
  const bool normalized = options.normalization == TextNormalization::kNmtNfkc;
  const auto word = [](bool value) { return value ? "true" : "false"; };
  return {{"vocab_size", std::to_string(size_of(options))},
          {"model_type", options.model == SentencePieceModel::kBpe ? "bpe" : "unigram"},
          {"character_coverage", fmt::to_string(options.character_coverage)},
          {"byte_fallback", word(options.byte_fallback)},
          {"normalization_rule_name", normalized ? "nmt_nfkc" : "identity"},
          {"remove_extra_whitespaces", word(normalized)},
          {"pad_id", std::to_string(kPadId)},
          {"eos_id", std::to_string(kEosId)},
          {"unk_id", std::to_string(kEosId + 1)},
          {"bos_id", "-1"},
          {"num_threads", std::to_string(kThreads)},
          {"minloglevel", std::to_string(kFatal)}};
}

/// The whole number that follows `words` in `text`.
std::optional<int64_t> number_after(std::string_view text, std::string_view words) {
  const size_t at = text.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view digits = text.substr(at + words.size());
  int64_t number = 0;
  if (std::from_chars(digits.data(), digits.data() + digits.size(), number).ec != std::errc())
    return std::nullopt;
  return number;
}

/// What the library says, as a user's mistake.
[[noreturn]] void throw_failed(const std::string& message, int64_t size, const TextSample& sample) {
  const std::string wanted = fmt::format("a vocabulary of {} pieces", size);
  if (const auto most = number_after(message, "set it to a value <= ")) {
    throw Error(ErrorKind::kConfig,
                fmt::format("{} is more than can be made of {} texts", wanted, sample.texts().size()),
                fmt::format("at most {} pieces, or more text", *most));
  }
  if (const auto least = number_after(message, fmt::format("required_chars. {} vs ", size))) {
    throw Error(ErrorKind::kConfig, fmt::format("{} has no room for the characters of the text", wanted),
                fmt::format("at least {} pieces, or a lower character coverage", *least));
  }
  throw Error(ErrorKind::kData, fmt::format("{} cannot be trained: {}", wanted, printable(message)));
}

void write(const std::string& text, const std::string& path) {
  if (const int error = write_file(path, std::as_bytes(std::span(text))))
    throw Error(ErrorKind::kSystem, fmt::format("{}: cannot be written: {}", path, system_message(error)));
}

std::string list_of_pieces(const SentencePieceVocabulary& vocabulary) {
  std::string list;
  for (int32_t id = 0; id < vocabulary.size(); ++id)
    fmt::format_to(std::back_inserter(list), "{}\t{:g}\n", vocabulary.piece(id), vocabulary.score(id));
  return list;
}

}  // namespace

void TextSample::add(std::string_view text) {
  while (text.size() > kLongestSentence) {
    size_t end = text.rfind(' ', kLongestSentence);
    if (end == std::string_view::npos || end == 0) {
      end = kLongestSentence;
      while (end > kLongestSentence - 4 && (text[end] & 0xC0) == 0x80) --end;  // not within a character
    }
    add_piece(text.substr(0, end));
    text.remove_prefix(end);
  }
  add_piece(text);
}

void TextSample::add_piece(std::string_view text) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return;
  const int64_t position = added_++;
  size_t place = texts_.size();
  if (position < most_) {
    texts_.emplace_back();
  } else {
    const uint64_t number =
        hash64(std::string_view(reinterpret_cast<const char*>(&position), sizeof position));
    place = number % static_cast<uint64_t>(added_);
    if (place >= texts_.size()) return;
  }
  std::string& kept = texts_[place];
  kept.assign(text);
  std::ranges::replace(kept, '\t', ' ');  // the library passes over texts with tabs
}

std::string train_sentencepiece(const TextSample& sample, const SentencePieceTraining& options) {
  if (sample.texts().empty()) throw Error(ErrorKind::kData, "there is no text to train a vocabulary on");
  Sentences sentences(sample.texts());
  std::string model;
  const sentencepiece::util::Status status =
      sentencepiece::SentencePieceTrainer::Train(arguments(options), &sentences, &model);
  if (!status.ok()) throw_failed(status.error_message(), size_of(options), sample);
  return model;
}

void write_vocabulary(const std::string& model, const std::string& path) {
  write(list_of_pieces(SentencePieceVocabulary(model, path)),
        fs::path(path).replace_extension(".vocab").string());
  write(model, path);
}

std::string trained_vocabulary_path(const VocabularyChoice& options, Side side,
                                    const std::string& directory) {
  const std::string name =
      are_apart(options) ? fmt::format("vocabulary.{}.model", name_of(side)) : "vocabulary.model";
  return (fs::path(directory) / name).string();
}

namespace {

/// The options with the path of the trained file.
LanguageVocabulary with_path(LanguageVocabulary options, const std::string& path) {
  if (options->is_trained()) options.get_if<SentencePieceOptions>()->path.text = path;
  return options;
}

/// What a file that mtf-train has trained was made of, which is written beside it.
struct VocabularyOrigin {
  std::string key;    ///< hash of the options and texts
  std::string model;  ///< identity_of() the file, which may have been replaced or copied by hand
};

std::string origin_path(const std::string& path) {
  return fs::path(path).replace_extension(".origin").string();
}

/// Returns a hash of a file's bytes and directory.
std::string identity_of(std::span<const std::byte> bytes, const std::string& path) {
  std::error_code ignored;
  return hash128_hex(fmt::format("{} {}", hash128_hex(bytes),
                                 fs::weakly_canonical(fs::path(path).parent_path(), ignored).string()));
}

/// Returns empty texts if there is none.
VocabularyOrigin read_origin(const std::string& path) {
  VocabularyOrigin origin;
  std::ifstream(origin_path(path)) >> origin.key >> origin.model;
  return origin;
}

std::string key_of(const VocabularyChoice& options, Side side, const VocabularyTexts& texts) {
  const LanguageVocabulary language = by_side(options)[side];
  std::string text = are_apart(options) ? std::string(name_of(side)) : std::string();
  const auto given = arguments(*language.get_if<SentencePieceOptions>());
  for (const auto& [name, value] : std::map<std::string, std::string>(given.begin(), given.end()))
    text += fmt::format(" {}={}", name, value);
  return hash128_hex(fmt::format("{}\n{}", text, texts.key()));
}

/// True if mtf-train has trained the file at `path` with another key.
bool is_replaced(const std::string& path, const VocabularyChoice& options, Side side,
                 const VocabularyTexts& texts) {
  const VocabularyOrigin origin = read_origin(path);
  return texts.may_replace && !origin.model.empty() && fs::exists(path) &&
         origin.model == identity_of(MappedFile(path).bytes(), path) &&
         origin.key != key_of(options, side, texts);
}

bool needs_training(const std::string& path, const VocabularyChoice& options, Side side,
                    const VocabularyTexts& texts) {
  return !fs::exists(path) || is_replaced(path, options, side, texts);
}

/// Trains the file at `path`.
void train(const TextSample& sample, const std::string& path, const SentencePieceTraining& options,
           const std::string& key, const Announce& announce) {
  if (fs::exists(path))
    announce(
        fmt::format("{} was trained on other texts or with other options, and the run has no "
                    "checkpoint: a new one takes its place",
                    path));
  announce(fmt::format("training a vocabulary of {} on {}", counted(size_of(options), "piece"),
                       counted(static_cast<int64_t>(sample.texts().size()), "text")));
  const auto begin = std::chrono::steady_clock::now();
  const std::string model = train_sentencepiece(sample, options);
  // If the process ends between two of these steps there is no model, and the next start trains it.
  std::error_code ignored;
  fs::remove(path, ignored);
  write(fmt::format("{} {}\n", key, identity_of(std::as_bytes(std::span(model)), path)), origin_path(path));
  write_vocabulary(model, path);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  announce(fmt::format("vocabulary trained in {:.1f} s: {}", seconds.count(), path));
}

}  // namespace

bool lacks_vocabulary(const VocabularyChoice& options, const std::string& directory) {
  const BySide<LanguageVocabulary> languages = by_side(options);
  return std::ranges::any_of(kSides, [&](Side side) {
    return languages[side]->is_trained() && !fs::exists(trained_vocabulary_path(options, side, directory));
  });
}

bool replaces_vocabulary(const VocabularyChoice& options, const std::string& directory,
                         const VocabularyTexts& texts) {
  const BySide<LanguageVocabulary> languages = by_side(options);
  return std::ranges::any_of(kSides, [&](Side side) {
    return languages[side]->is_trained() &&
           is_replaced(trained_vocabulary_path(options, side, directory), options, side, texts);
  });
}

bool trains_other_vocabularies(const VocabularyChoice& options, const std::string& directory,
                               const VocabularyTexts& texts, const std::string& other) {
  const BySide<LanguageVocabulary> languages = by_side(options);
  return std::ranges::all_of(kSides, [&](Side side) {
    return languages[side]->is_trained() &&
           needs_training(trained_vocabulary_path(options, side, directory), options, side, texts) &&
           read_origin(trained_vocabulary_path(options, side, other)).key != key_of(options, side, texts);
  });
}

void train_vocabularies(const VocabularyChoice& options, const std::string& directory,
                        const VocabularyTexts& texts, const Announce& announce, const Mark& mark) {
  const BySide<LanguageVocabulary> languages = by_side(options);
  for (const Side side : kSides) {
    const std::string path = trained_vocabulary_path(options, side, directory);
    if (!languages[side]->is_trained() || !needs_training(path, options, side, texts)) continue;
    const std::string key = key_of(options, side, texts);  // texts that change from here on have another one
    TextSample sample;  // read before anything is written: the texts may be wrong
    texts.for_each([&](Side of, std::string_view text) {
      if (!are_apart(options) || of == side) sample.add(text);
    });
    const MadeDirectory made(directory);
    const FileLock lock(path + ".lock",
                        [&] { announce(fmt::format("waiting for another process that trains {}", path)); });
    if (!needs_training(path, options, side, texts)) continue;
    try {
      train(sample, path, *languages[side].get_if<SentencePieceOptions>(), key, announce);
    } catch (const Error& error) {
      throw placed_at(error, mark);
    }
  }
}

BySide<std::shared_ptr<const Vocabulary>> read_vocabularies(const VocabularyChoice& options,
                                                            const std::string& directory, const Mark& mark) {
  const BySide<LanguageVocabulary> languages = by_side(options);
  const auto read = [&](Side side) -> std::shared_ptr<const Vocabulary> {
    return read_vocabulary(with_path(languages[side], trained_vocabulary_path(options, side, directory)),
                           mark);
  };
  const auto targets = read(Side::kTargets);
  return {are_apart(options) ? read(Side::kInputs) : targets, targets};
}

}  // namespace mtf
