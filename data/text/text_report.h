// By what rules texts become rows, and what became of them: what a run says about its data before it begins.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "data/text/text_options.h"

namespace mtf {

struct RowRules {
  BySide<int64_t> row;    ///< tokens of a row; 0: there is no such side
  BySide<int64_t> limit;  ///< longest text, at most `row`
  std::optional<double> max_ratio = {};
  TooLong too_long = TooLong::kDrop;  ///< kSplit: there is one side
  Packing packing = Packing::kDense;
  bool keep_empty = false;  ///< an empty text becomes an end of sequence alone; else its example is dropped
};

/// What became of the examples.
struct TextReport {
  std::string name;  ///< of the source, where there are several
  int64_t examples = 0;
  int64_t blank_lines = 0;  ///< passed over, not among the examples
  int64_t empty = 0;        ///< dropped, or kept as an end of sequence alone
  int64_t too_long = 0;     ///< treated as `rules.too_long` says
  int64_t too_unequal = 0;  ///< dropped: beyond `rules.max_ratio`
  int64_t rows = 0;
  BySide<int64_t> tokens;  ///< in all rows
  RowRules rules;

  /// The share of the places for tokens that stay empty, on one side, and on both together.
  double padding(Side side) const;
  double padding() const;
  /// "2,000 examples in 812 rows (inputs 93.1 % full, targets 97.2 % full); 3 without text dropped, 12
  /// (0.6 %) longer than 64 tokens dropped".
  std::string to_string() const;
};

}  // namespace mtf
