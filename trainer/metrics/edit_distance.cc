#include "trainer/metrics/edit_distance.h"

#include <algorithm>
#include <cmath>

#include "engine/base/check.h"

namespace mtf {
namespace {

/// The number of columns on either side of the diagonal.
constexpr double kBeamWidth = 25;

}  // namespace

EditDistance::EditDistance(const Units& reference, size_t length) : reference_(reference), length_(length) {
  size_t widest = 0, cells = 0;
  for (size_t i = 0; i <= length; ++i) {
    Beam& beam = beams_.emplace_back(beam_of(i));
    beam.offset = cells;
    cells += beam.end - beam.begin;
    widest = std::max(widest, beam.end - beam.begin);
  }
  rows_.resize(cells);
  for (std::vector<Cell>& cells_of_row : scratch_) cells_of_row.resize(widest);
  for (size_t j = 0; j <= reference.size(); ++j) rows_[j] = {static_cast<uint32_t>(j), kInsert};
}

/// The "diagonal" goes from corner to corner, whatever the lengths. The beam is wider if the diagonal is so
/// flat that neighbouring rows would not overlap. The first row is complete, and the last one extends to the
/// last word.
EditDistance::Beam EditDistance::beam_of(size_t i) const {
  const size_t width = reference_.size() + 1;
  if (i == 0) return {0, width};
  const double words = static_cast<double>(reference_.size());
  const double slope = words / static_cast<double>(length_);
  const double beam = kBeamWidth < slope / 2 ? std::ceil(slope / 2 + kBeamWidth) : kBeamWidth;
  const double diagonal = std::floor(static_cast<double>(i) * slope);
  const auto begin = static_cast<size_t>(std::max(0.0, diagonal - beam));
  return {begin, i == length_ ? width : static_cast<size_t>(std::min(words + 1, diagonal + beam))};
}

/// Computes a row from the one above. Among equally short paths the diagonal step wins, then deletion, then
/// insertion.
void EditDistance::compute_row(const ConstRow& above, Cell* cells, const Beam& beam, uint32_t word) const {
  Cell left = kFar;
  Cell above_left = beam.begin == 0 ? kFar : above.at(beam.begin - 1);
  for (size_t j = beam.begin; j < beam.end; ++j) {
    const Cell over = above.at(j);
    Cell best = after(over, kDelete);
    if (j > 0) {
      const Cell diagonal = after(above_left, reference_[j - 1] == word ? kSame : kSubstitute);
      if (diagonal.cost <= best.cost) best = diagonal;
      if (left.cost + 1 < best.cost) best = after(left, kInsert);
    }
    above_left = over;
    left = cells[j - beam.begin] = best;
  }
}

void EditDistance::set(const Units& hypothesis) {
  for (size_t i = 1; i <= length_; ++i)
    compute_row(row(i - 1), rows_.data() + beams_[i].offset, beams_[i], hypothesis[i - 1]);
}

int64_t EditDistance::edits_of(const Units& hypothesis, size_t first) {
  ConstRow above = row(first);
  for (size_t i = first + 1; i <= length_; ++i) {
    std::vector<Cell>& cells = scratch_[i % 2];
    compute_row(above, cells.data(), beams_[i], hypothesis[i - 1]);
    above = {cells.data(), beams_[i]};
  }
  return above[reference_.size()].cost;
}

Alignment EditDistance::alignment() const {
  Alignment result;
  result.hypothesis_position.resize(reference_.size());
  result.reference_error.resize(reference_.size());
  result.hypothesis_error.resize(length_);
  for (size_t i = length_, j = reference_.size(); i > 0 || j > 0;) {
    const Cell cell = row(i).at(j);
    MTF_CHECK(cell.step != kNone, "no way leads to word {} of the hypothesis and {} of the reference", i, j);
    const bool error = cell.step != kSame;
    if (cell.step != kDelete) {
      --j;
      result.hypothesis_position[j] = static_cast<int64_t>(i) - 1;
      result.reference_error[j] = error;
    }
    if (cell.step != kInsert) result.hypothesis_error[--i] = error;
  }
  return result;
}

}  // namespace mtf
