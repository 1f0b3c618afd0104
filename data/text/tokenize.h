// Tokenises the texts of a source with several threads; the results have the order of the files.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "data/text/text_reader.h"
#include "data/text/text_sampling.h"
#include "data/text/text_scan.h"
#include "data/vocabulary/vocabulary.h"

namespace mtf {

/// The vocabulary of each side; both may be the same object.
using TextVocabularies = BySide<std::shared_ptr<const Vocabulary>>;

struct TokenizeOptions {
  TextVocabularies vocabularies;
  bool lowercase = false;
  int threads = 2;
  TextProgress progress = {};
  bool lines_apart = false;                    ///< each line is encoded by itself: it is a sentence
  std::optional<EpochSampling> sampling = {};  ///< nothing: the tokens of Vocabulary::encode()
};

/// The tokens of consecutive examples. Sides that the rows do not have are empty.
struct TokenChunk {
  BySide<std::vector<int32_t>> tokens;   ///< the tokens of all examples, one after the other
  BySide<std::vector<int64_t>> lengths;  ///< [examples]: the number of tokens of each example
  /// With lines apart: the index of the first token of each line of a text but its first line.
  BySide<std::vector<int64_t>> lines;
  /// With alignments: the tokens of the inputs and of the targets that are linked, in turns (append_token_links), of all
  /// examples, and [examples]: how many of these numbers belong to each.
  std::vector<int32_t> links = {};
  std::vector<int64_t> link_lengths = {};
};

/// Calls `append` with the examples of files that were scanned before, in chunks. An end-of-sequence token is
/// appended to each text; lists of ids stay as they are; an empty side has no tokens. If inputs and targets
/// are joined, the targets' vocabulary encodes both, and the example has no tokens when one of them is empty.
/// Throws Error (kData) when the files have changed since the scan and
/// have problems now.
void tokenize(const TextFiles& files, const TokenizeOptions& options,
              const std::function<void(const TokenChunk&)>& append);

}  // namespace mtf
