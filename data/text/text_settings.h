// What turns texts into rows, beside the options of the source itself.
#pragma once

#include <functional>
#include <string>

#include "data/text/line_splitter.h"
#include "data/text/text_options.h"
#include "data/text/text_report.h"
#include "data/text/tokenize.h"

namespace mtf {

/// kEvaluation: every example counts, in the order of the files. Filters are off, empty texts stay, pairs
/// that are too long are cut off and stand one in a row: row i is example i. Texts without inputs are packed
/// as in training, and split.
enum class TextPurpose { kTraining, kEvaluation };

/// What turns texts into rows, beside the source's own options.
struct TextSettings {
  std::string name;  ///< of the source, for its report; may be empty
  TextVocabularies vocabularies;
  BySide<int64_t> lengths;  ///< tokens of a row
  Packing packing = Packing::kDense;
  LengthFilter filter;
  bool lowercase = false;
  std::string cache;  ///< directory of token stores; empty: default_cache_directory()
  TextLimit limit;    ///< of each text
  TextPurpose purpose = TextPurpose::kTraining;
  int threads = 2;                                     ///< that tokenise
  TextProgress progress = {};                          ///< may be called from several threads, one at a time
  std::function<void(const TextReport&)> report = {};  ///< called once the source is there
  std::function<void(const std::string&)> note = {};   ///< what else was done, as a line
};

/// What sources need beside their own options.
struct SourceContext {
  uint64_t seed = 1;       ///< for synthetic examples
  Mark mark = {};          ///< where the source stands in the configuration
  TextSettings text = {};  ///< for sources of text
};

}  // namespace mtf
