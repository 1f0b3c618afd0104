// The texts of a source, one example after the other, for infer and score.
//
//   TextPairs texts({.source = choice, .mark = mark}, {Side::kTargets, Side::kInputs}, vocabularies, limit);
//   for (LinePairs some = texts.take(1024); !some.empty(); some = texts.take(1024)) ...
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/text_reader.h"
#include "data/text/tokenize.h"

namespace mtf {

struct LinePair {
  std::string first;
  std::string second;  ///< the corresponding line of the second file; empty without a second file
  /// Where parts of a prompt end that are encoded apart (TextField::parts); none: it is one part.
  std::vector<size_t> prompt_parts = {};
};
using LinePairs = std::vector<LinePair>;

/// A source of texts, of which one side or both are read.
struct TextColumns {
  SourceChoice source;  ///< TextSourceOptions
  Side first = Side::kTargets;
  std::optional<Side> second = {};
  TextVocabularies vocabularies = {};  ///< decode sources of ids
  Mark mark = {};
};

/// Returns the options of a source of texts. Throws Error (kConfig, at `mark`) for another source or one with an objective,
/// whose examples are not the texts; `key` is its name in messages.
const TextSourceOptions& texts_of(const SourceChoice& source, std::string_view key, const Mark& mark);
/// True if the files of the source have this side, or texts of which a part is it.
bool has_side(const TextSourceOptions& source, Side side);

/// Returns the number of examples. Throws Error when files are missing, and (kData) with all examples that cannot be read.
int64_t check_texts(const TextColumns& columns, const TextLimit& limit);

class TextPairs {
 public:
  /// Throws Error when files are missing.
  TextPairs(const TextColumns& columns, const TextLimit& limit);

  TextPairs(const TextPairs&) = delete;

  /// Returns the next pairs, at most `most`; an empty vector at the end. Throws Error (kData) where a file is wrong.
  LinePairs take(size_t most);

 private:
  std::string text(const TextExample& example, Side side) const;

  TextColumns columns_;
  TextFiles files_;
  TextProblems problems_;
  std::optional<TextReader> reader_;
  int64_t number_ = 0;  ///< examples read so far
};

}  // namespace mtf
