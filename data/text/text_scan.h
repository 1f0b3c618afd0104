// One look at all files of a source before anything is made of them, so that a run does not end after hours
// for a bad line: lines that do not pair up, bytes that are no UTF-8, missing columns, ids that are not in
// the vocabulary, files that cannot be read. All of it is one Error.
#pragma once

#include <cstdint>
#include <functional>

#include "data/text/text_reader.h"

namespace mtf {

/// What a source of text is busy with; `done` and `total` are bytes of files, 0 for kPack and kWait.
enum class TextStage { kCheck, kTokenise, kPack, kWait };
using TextProgress = std::function<void(TextStage stage, int64_t done, int64_t total)>;

struct TextCounts {
  int64_t examples = 0;
  int64_t empty = 0;        ///< of them: with no text on one side
  int64_t blank_lines = 0;  ///< passed over, not among the examples
};

/// Throws Error (kData) with everything that is wrong, and when there are no examples.
TextCounts scan_texts(const TextFiles& files, const BySide<int64_t>& vocabulary_sizes,
                      const TextProgress& progress = {});

}  // namespace mtf
