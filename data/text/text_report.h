// The rules by which texts become rows, and the statistics of the result, which a run reports before it
// begins.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "data/text/text_options.h"

namespace mtf {

struct RowRules {
  BySide<int64_t> row;    ///< tokens of a row; 0: the source does not have this side
  BySide<int64_t> limit;  ///< longest text in tokens, at most `row`
  std::optional<double> max_ratio = {};
  bool joins_pairs = false;           ///< texts are pairs that were joined: `max_ratio` is of their two parts
  TooLong too_long = TooLong::kDrop;  ///< kSplit only if there is one side
  Packing packing = Packing::kDense;
  /// True: an empty text becomes a lone end-of-sequence token. False: its example is dropped.
  bool keep_empty = false;
  /// True: texts are joined pairs, and those that are cut keep two ends of sequence. A pair of which the cut leaves no token
  /// of the targets is dropped.
  bool cuts_joined_pairs = false;
  /// True: texts are conversations. One of which nothing is learned is dropped, and no end of sequence stands behind a cut.
  bool has_answers = false;
  /// True: each two texts are a pair of answers, which are dropped together and share a row.
  bool has_preferences = false;

  /// Returns `limit` for messages: "64 tokens", or "64 / 72 tokens" of inputs and targets.
  std::string limit_text() const;
};

/// The statistics of the examples and rows.
struct TextReport {
  std::string name;  ///< the source's name; empty if there is only one source
  int64_t examples = 0;
  int64_t blank_lines = 0;  ///< skipped; not counted as examples
  /// Dropped, or kept as a lone end-of-sequence token. Joined pairs of which a cut leaves no targets are among them, and
  /// conversations of which nothing is learned.
  int64_t empty = 0;
  int64_t too_long = 0;     ///< dropped, cut or split by `rules.too_long`
  int64_t too_unequal = 0;  ///< dropped because of `rules.max_ratio`
  int64_t rows = 0;
  BySide<int64_t> tokens;  ///< the number of tokens in all rows
  RowRules rules;

  /// The fraction of token positions of a side that are padding.
  double padding(Side side) const;
  /// Returns "2,000 examples in 812 rows (inputs 93.1 % full, targets 97.2 % full); 3 without text dropped,
  /// 12 (0.6 %) longer than 64 tokens dropped".
  std::string to_string() const;
};

}  // namespace mtf
