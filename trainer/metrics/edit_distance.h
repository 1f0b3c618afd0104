// The Levenshtein distance of hypotheses that differ by shifts from a reference, computed in a beam around
// the diagonal. Memory is linear in the number of words: 16,000 words against 16,000 take 4 MB.
//
//   EditDistance distance(reference, hypothesis.size());
//   distance.set(hypothesis);
//   distance.edits();                        // edits of this hypothesis
//   distance.edits_of(shifted, first);       // edits of another one, equal before word `first`
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "trainer/metrics/ngrams.h"

namespace mtf {

/// The correspondence of the words of hypothesis and reference.
struct Alignment {
  std::vector<int64_t> hypothesis_position;  ///< [reference words]; -1: before the first word
  std::vector<bool> reference_error;         ///< [reference words]: substituted or missing
  std::vector<bool> hypothesis_error;        ///< [hypothesis words]: substituted or not in the reference
};

class EditDistance {
 public:
  /// All hypotheses must have `length` words.
  EditDistance(const Units& reference, size_t length);

  void set(const Units& hypothesis);
  int64_t edits() const { return row(length_)[reference_.size()].cost; }
  Alignment alignment() const;

  /// Returns the edits of `hypothesis`, which equals the one that was set in the words before `first`.
  int64_t edits_of(const Units& hypothesis, size_t first);

 private:
  enum Step : uint32_t { kNone, kSame, kSubstitute, kInsert, kDelete };
  struct Cell {
    uint32_t cost : 29;
    uint32_t step : 3;  ///< last step of the path; kInsert inserts a word of the reference
  };
  /// The columns that are computed in a row, and the index of their first cell. The other columns are
  /// infinitely far.
  struct Beam {
    size_t begin = 0;
    size_t end = 0;
    size_t offset = 0;
  };
  /// The cells of a row, indexed by column.
  struct ConstRow {
    const Cell* cells;
    Beam beam;
    /// Returns the cell of any column; outside the beam it is kFar.
    Cell at(size_t j) const { return j < beam.begin || j >= beam.end ? kFar : cells[j - beam.begin]; }
    const Cell& operator[](size_t j) const { return cells[j - beam.begin]; }
  };
  static constexpr Cell kFar = {1u << 28, kNone};
  static Cell after(Cell cell, Step step) { return {cell.cost + (step == kSame ? 0u : 1u), step}; }

  Beam beam_of(size_t i) const;
  void compute_row(const ConstRow& above, Cell* cells, const Beam& beam, uint32_t word) const;
  ConstRow row(size_t i) const { return {rows_.data() + beams_[i].offset, beams_[i]}; }

  const Units& reference_;
  size_t length_;
  std::vector<Beam> beams_;
  std::vector<Cell> rows_;                    ///< rows of the hypothesis that was set; row 0: no words
  std::array<std::vector<Cell>, 2> scratch_;  ///< two rows of another hypothesis
};

}  // namespace mtf
