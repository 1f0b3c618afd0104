// The settings of making rows from texts that are independent of the source's format.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "data/split.h"
#include "data/text/line_splitter.h"
#include "data/text/text_options.h"
#include "data/text/text_report.h"
#include "data/text/tokenize.h"

namespace mtf {

/// kEvaluation uses every example, in the order of the files. Filters are off and empty texts are kept. Pairs
/// that are too long are cut, and each has its own row: row i is example i. Texts without inputs are packed
/// and, if they are too long, split, as in training. Two answers of which one has nothing that is learned are dropped.
enum class TextPurpose { kTraining, kEvaluation };

/// The settings of make_text_source(), besides the source's own options.
struct TextSettings {
  std::string name;  ///< name of the source in its report; may be empty
  TextVocabularies vocabularies;
  BySide<int64_t> lengths;  ///< number of tokens of a row
  Packing packing = Packing::kDense;
  LengthFilter filter;
  bool lowercase = false;
  std::string cache;  ///< directory of the token stores; empty: default_cache_directory()
  TextLimit limit;    ///< largest size of each text
  TextPurpose purpose = TextPurpose::kTraining;
  int threads = 2;             ///< number of threads that tokenise
  TextProgress progress = {};  ///< called from several threads, but not at the same time
  std::function<void(const TextReport&)> report = {};  ///< called when the source is ready
  /// Receives lines about other events, such as removed stores.
  std::function<void(const std::string&)> note = {};

  /// Tells nothing more: later epochs are made while a run shows its own progress.
  void be_silent() {
    progress = {};
    report = {};
    note = {};
  }
};

/// What sources need beside their own options.
struct SourceContext {
  uint64_t seed = 1;       ///< for synthetic examples
  Mark mark = {};          ///< where the source stands in the configuration
  TextSettings text = {};  ///< for sources of text
  std::string cache = {};  ///< directory of stores; empty: default_cache_directory()
  int threads = 2;         ///< number of threads that prepare or decode examples
  /// Called while a source is prepared: what is done, how much of it, and of how much.
  std::function<void(std::string_view what, int64_t done, int64_t total)> progress = {};
  std::function<void(const std::string&)> note = {};  ///< receives lines about other events
  /// False for data that are evaluated.
  bool training = true;
  /// False where the examples are given to a trained model, to predict what they lack: the files need no labels and
  /// targets, and a source leaves their features out.
  bool labelled = true;
  /// Source::preparation() of the training data, which is empty where they have nothing to tell. Nothing: it is not known,
  /// as when a run begins.
  std::optional<std::string> preparation = {};
  /// False where the weights were trained before: without a preparation, what these examples have is not that of the
  /// training data, and a source that needs it refuses them (throw_unprepared()).
  bool prepares = true;
  /// Which examples are held out; none of them has a part in what a source computes from its training examples.
  SplitRule split = {};
};

}  // namespace mtf
