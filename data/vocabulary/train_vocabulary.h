// Trains a SentencePiece vocabulary: by itself for mtf-vocab, and for a run that has none yet.
//
//   TextSample sample;
//   for (const std::string& line : lines) sample.add(line);
//   write_vocabulary(train_sentencepiece(sample, options), "vocabulary.model");
//
// Padding is 0, the end of sequence 1, unknown text 2. The same texts in the same order give the same file,
// whatever machine trains it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/vocabulary/vocabulary_options.h"

namespace mtf {

/// Texts to train on: all of them, or as many as `most`, each with the same chance (reservoir sampling with
/// random numbers that are a function of the text's position).
class TextSample {
 public:
  static constexpr int64_t default_most = 2'000'000;

  explicit TextSample(int64_t most = default_most) : most_(most) {}

  /// Long texts are cut at blanks into several.
  void add(std::string_view text);

  /// Texts that were added, after cutting; blank ones do not count.
  int64_t added() const { return added_; }
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  void add_piece(std::string_view text);

  int64_t most_;
  int64_t added_ = 0;
  std::vector<std::string> texts_;
};

/// The bytes of a .model file. Throws Error: kData when there is no text, kConfig when its size does not suit the text.
std::string train_sentencepiece(const TextSample& sample, const SentencePieceTraining& options);

/// Writes the model, and before it the list of its pieces with their scores: `vocabulary.vocab` beside
/// `vocabulary.model`. Each is the old file or the whole new one. Throws Error (kSystem).
void write_vocabulary(const std::string& model, const std::string& path);

/// DIRECTORY/vocabulary.model, or DIRECTORY/vocabulary.inputs.model and DIRECTORY/vocabulary.targets.model of
/// two that are apart: where a run keeps the vocabulary that it has trained.
std::string trained_vocabulary_path(const VocabularyChoice& options, Side side, const std::string& directory);

/// `options` ask for a vocabulary that is to be trained and is not in `directory` yet.
bool lacks_vocabulary(const VocabularyChoice& options, const std::string& directory);

/// The texts that vocabularies are trained on.
struct VocabularyTexts {
  /// Calls `use` with each of them.
  std::function<void(const std::function<void(Side, std::string_view)>& use)> for_each;
  /// Returns a text that differs for other texts.
  std::function<std::string()> key;
  /// True while the run has no checkpoint: a vocabulary that an earlier start trained on other texts or with other options
  /// is then trained anew. Otherwise the vocabulary that is there stays.
  bool may_replace = false;
};

/// `texts` may replace a vocabulary of `options` in `directory`: mtf-train trained it there, on other texts or with other
/// options. False for a file that came there in another way.
bool replaces_vocabulary(const VocabularyChoice& options, const std::string& directory,
                         const VocabularyTexts& texts);

/// Every vocabulary of `options` is to be trained into `directory`, and none on the texts and with the options of those that
/// a run has trained in directory `other`.
bool trains_other_vocabularies(const VocabularyChoice& options, const std::string& directory,
                               const VocabularyTexts& texts, const std::string& other);

/// Shows one line to a person.
using Announce = std::function<void(const std::string& line)>;

/// Trains each vocabulary of `options` that is to be trained and whose file is not in `directory` yet, or is replaced. Of
/// several processes one trains and the others wait for it. Makes the directory, which stays only with a
/// vocabulary in it. Throws Error: at `mark` when
/// they cannot be trained, and what `texts` throw, before anything is written.
void train_vocabularies(const VocabularyChoice& options, const std::string& directory,
                        const VocabularyTexts& texts, const Announce& announce, const Mark& mark = {});

/// Opens the vocabularies of both sides, those that were trained from `directory`; the same object twice
/// unless they are apart. Throws Error as read_vocabulary does.
BySide<std::shared_ptr<const Vocabulary>> read_vocabularies(const VocabularyChoice& options,
                                                            const std::string& directory,
                                                            const Mark& mark = {});

}  // namespace mtf
