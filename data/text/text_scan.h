// Validates all files of a source before they are tokenised, so that a run does not fail after hours because
// of one bad line. It finds lines that do not pair up, invalid UTF-8, missing columns, ids outside the
// vocabulary and unreadable files, and reports all of them in one Error.
#pragma once

#include <cstdint>
#include <functional>

#include "data/text/text_reader.h"

namespace mtf {

/// The stages of preparing a source of text. kWait: another process prepares it.
enum class TextStage { kCheck, kTokenise, kPack, kWait };
/// Reports progress; `done` and `total` are bytes of the files, or 0 for kPack and kWait.
using TextProgress = std::function<void(TextStage stage, int64_t done, int64_t total)>;

struct TextCounts {
  int64_t examples = 0;
  int64_t empty = 0;        ///< examples with an empty text on some side
  int64_t blank_lines = 0;  ///< skipped; not counted as examples
  int64_t longest = 0;      ///< bytes of the longest line, document or record
};

/// Scans the files. Throws Error (kData) with all problems, and when there is no example with text.
TextCounts scan_texts(const TextFiles& files, const BySide<int64_t>& vocabulary_sizes,
                      const TextProgress& progress = {});

}  // namespace mtf
