#include "data/metrics/edit_distance.h"

#include <algorithm>
#include <cmath>

#include "engine/core/check.h"

namespace mtf {
namespace {

/// Columns on either side of the diagonal.
constexpr double kBeamWidth = 25;
constexpr int32_t kInfinite = 1 << 29;

}  // namespace

/// The "diagonal" goes from corner to corner, whatever the lengths; the beam is wider where it is so flat
/// that neighbouring rows would not overlap. The last row is complete up to the last word.
EditDistance::EditDistance(const Units& reference, size_t length)
    : reference_(reference), length_(length), width_(reference.size() + 1), beams_(length + 1) {
  const double words = static_cast<double>(reference.size());
  const double slope = length > 0 ? words / static_cast<double>(length) : 1;
  const double beam = kBeamWidth < slope / 2 ? std::ceil(slope / 2 + kBeamWidth) : kBeamWidth;
  for (size_t i = 1; i <= length; ++i) {
    const double diagonal = std::floor(static_cast<double>(i) * slope);
    beams_[i].begin = static_cast<size_t>(std::max(0.0, diagonal - beam));
    beams_[i].end = i == length ? width_ : static_cast<size_t>(std::min(words + 1, diagonal + beam));
  }
  rows_.assign((length + 1) * width_, Cell{kInfinite, Step::kNone});
  scratch_.assign(2 * width_, Cell{kInfinite, Step::kNone});
  for (size_t j = 0; j < width_; ++j) rows_[j] = {static_cast<int32_t>(j), Step::kInsert};
}

/// Of equally short ways, the one over the diagonal wins, then deletion, then insertion.
void EditDistance::compute_row(const Cell* above, Cell* row, size_t i, uint32_t word) const {
  const auto [begin, end] = beams_[i];
  // Only these cells beside the beam are read: one to the left, and those that the next row has above it.
  if (begin > 0) row[begin - 1] = {kInfinite, Step::kNone};
  if (i < length_) {
    for (size_t j = end; j < std::min(width_, beams_[i + 1].end); ++j) row[j] = {kInfinite, Step::kNone};
  }
  for (size_t j = begin; j < end; ++j) {
    if (j == 0) {
      row[0] = {above[0].cost + 1, Step::kDelete};
      continue;
    }
    const bool same = reference_[j - 1] == word;
    Cell best = {above[j - 1].cost + (same ? 0 : 1), same ? Step::kSame : Step::kSubstitute};
    if (above[j].cost + 1 < best.cost) best = {above[j].cost + 1, Step::kDelete};
    if (row[j - 1].cost + 1 < best.cost) best = {row[j - 1].cost + 1, Step::kInsert};
    row[j] = best;
  }
}

void EditDistance::set(const Units& hypothesis) {
  for (size_t i = 1; i <= length_; ++i)
    compute_row(&rows_[(i - 1) * width_], &rows_[i * width_], i, hypothesis[i - 1]);
}

int64_t EditDistance::edits_of(const Units& hypothesis, size_t first) {
  const Cell* above = &rows_[first * width_];
  for (size_t i = first + 1; i <= length_; ++i) {
    Cell* const row = &scratch_[i % 2 * width_];
    compute_row(above, row, i, hypothesis[i - 1]);
    above = row;
  }
  return above[reference_.size()].cost;
}

Alignment EditDistance::alignment() const {
  Alignment result;
  result.hypothesis_position.resize(reference_.size());
  result.reference_error.resize(reference_.size());
  result.hypothesis_error.resize(length_);
  for (size_t i = length_, j = reference_.size(); i > 0 || j > 0;) {
    const Step step = cell(i, j).step;
    MTF_CHECK(step != Step::kNone, "no way leads to word {} of the hypothesis and {} of the reference", i, j);
    const bool error = step != Step::kSame;
    if (step != Step::kDelete) {
      --j;
      result.hypothesis_position[j] = static_cast<int64_t>(i) - 1;
      result.reference_error[j] = error;
    }
    if (step != Step::kInsert) result.hypothesis_error[--i] = error;
  }
  return result;
}

}  // namespace mtf
