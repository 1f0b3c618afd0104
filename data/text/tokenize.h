// The texts of a source as token ids, made by several threads and handed on in the order of the files.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "data/text/text_reader.h"
#include "data/text/text_scan.h"
#include "data/vocabulary/vocabulary.h"

namespace mtf {

/// One object for both sides, or two.
using TextVocabularies = BySide<std::shared_ptr<const Vocabulary>>;

struct TokenizeOptions {
  TextVocabularies vocabularies;
  bool lowercase = false;
  int threads = 2;
  TextProgress progress = {};
};

/// Consecutive examples; sides that the rows do not have are empty.
struct TokenChunk {
  BySide<std::vector<int32_t>> tokens;   ///< of all examples, one after the other
  BySide<std::vector<int64_t>> lengths;  ///< of each example
};

/// Calls `append` with all examples of files that were scanned without problems. Each text is followed by the
/// end of sequence, ids stand as they were read; an example with an empty side has no tokens there. Where
/// inputs and targets are joined the targets' vocabulary encodes both, and the example has no tokens when one
/// of them is empty. Documents are encoded line by line. Throws Error (kData) when the files have changed and
/// are wrong now.
void tokenize(const TextFiles& files, const TokenizeOptions& options,
              const std::function<void(const TokenChunk&)>& append);

}  // namespace mtf
