// The Levenshtein distance of the hypothesis from a reference, near the diagonal; of many hypotheses that
// differ by shifts. Memory grows with the words of both, not with their product: 16,000 against 16,000 take 4
// MB.
//
//   EditDistance distance(reference, hypothesis.size());
//   distance.set(hypothesis);
//   distance.edits();                        // of the hypothesis
//   distance.edits_of(shifted, first);       // of another, equal up to word `first`
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "trainer/metrics/ngrams.h"

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
  int64_t edits() const { return row(length_)[reference_.size()].cost; }
  Alignment alignment() const;

  /// Edits of `hypothesis`, which has the words of the one that was set up to word `first`.
  int64_t edits_of(const Units& hypothesis, size_t first);

 private:
  enum Step : uint32_t { kNone, kSame, kSubstitute, kInsert, kDelete };
  struct Cell {
    uint32_t cost : 29;
    uint32_t step : 3;  ///< the last one on the way here; kInsert: of a word of the reference
  };
  /// The columns that a row computes, and where its cells begin. The other columns are infinitely far.
  struct Beam {
    size_t begin = 0;
    size_t end = 0;
    size_t offset = 0;
  };
  /// Cells of a row by their columns.
  struct ConstRow {
    const Cell* cells;
    Beam beam;
    /// The cell of any column; one outside the beam is far away.
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
  std::vector<Cell> rows_;                    ///< of the hypothesis that was set, the first one for no words
  std::array<std::vector<Cell>, 2> scratch_;  ///< two rows of another
};

}  // namespace mtf
