// The Levenshtein distance of the hypothesis from a reference, near the diagonal; of many hypotheses that
// differ by shifts.
//
//   EditDistance distance(reference, hypothesis.size());
//   distance.set(hypothesis);
//   distance.edits();                        // of the hypothesis
//   distance.edits_of(shifted, first);       // of another, equal up to word `first`
#pragma once

#include <cstdint>
#include <vector>

#include "data/metrics/ngrams.h"

namespace mtf {

/// How words of the hypothesis and of the reference correspond.
struct Alignment {
  std::vector<int64_t> hypothesis_position;  ///< per word of the reference; -1: before the first word
  std::vector<bool> reference_error;         ///< per word: substituted or left out
  std::vector<bool> hypothesis_error;        ///< per word: substituted or not in the reference
};

class EditDistance {
 public:
  /// All hypotheses have `length` words.
  EditDistance(const Units& reference, size_t length);

  void set(const Units& hypothesis);
  int64_t edits() const { return cell(length_, reference_.size()).cost; }
  Alignment alignment() const;

  /// Edits of `hypothesis`, which has the words of the one that was set up to word `first`.
  int64_t edits_of(const Units& hypothesis, size_t first);

 private:
  enum class Step : uint8_t { kNone, kSame, kSubstitute, kInsert, kDelete };
  struct Cell {
    int32_t cost;
    Step step;  ///< the last one on the way here; kInsert: of a word of the reference
  };
  /// The columns that row `i` computes; the others are infinitely far.
  struct Beam {
    size_t begin = 0;
    size_t end = 0;
  };

  void compute_row(const Cell* above, Cell* row, size_t i, uint32_t word) const;
  const Cell& cell(size_t i, size_t j) const { return rows_[i * width_ + j]; }

  const Units& reference_;
  size_t length_;
  size_t width_;  ///< of a row
  std::vector<Beam> beams_;
  std::vector<Cell> rows_;     ///< of the hypothesis that was set, the first one for no words
  std::vector<Cell> scratch_;  ///< two rows of another
};

}  // namespace mtf
