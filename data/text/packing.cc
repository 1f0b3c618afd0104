#include "data/text/packing.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace mtf {
namespace {

/// An index of the rows that are not full, by the room that is left in them.
///
/// It is a grid over (room for inputs, room for targets); each cell holds a list of rows. On wide sides
/// neighbouring sizes share a cell: a row is entered with its room rounded down, and a look-up rounds the
/// example's size up, so a row that is found always fits. One bit per cell says whether it has a row.
class OpenRows {
 public:
  explicit OpenRows(const BySide<int64_t>& row)
      : step_{step_for(row.inputs), step_for(row.targets)},
        height_(row.inputs / step_.inputs + 1),
        width_(row.targets / step_.targets + 1),
        words_((width_ + 63) / 64),
        head_(height_ * width_, kNone),
        occupied_(height_ * words_, 0),
        weight_{1.0 / static_cast<double>(height_), 1.0 / static_cast<double>(width_)} {}

  /// Removes and returns the row in which the example leaves the least room, with both sides weighted
  /// equally; kNone if it fits into no row.
  int64_t take(const TokenCounts& example) {
    const int64_t top = (example.inputs + step_.inputs - 1) / step_.inputs;
    const int64_t left = (example.targets + step_.targets - 1) / step_.targets;
    int64_t best_cell = kNone;
    double best = 2;
    for (int64_t y = top; y < height_ && static_cast<double>(y - top) * weight_.inputs < best; ++y) {
      const int64_t x = first_occupied(y, left);
      if (x == kNone) continue;
      const double waste =
          static_cast<double>(y - top) * weight_.inputs + static_cast<double>(x - left) * weight_.targets;
      if (waste >= best) continue;
      best = waste;
      best_cell = y * width_ + x;
    }
    if (best_cell == kNone) return kNone;
    const int64_t row = head_[best_cell];
    head_[best_cell] = next_[row];
    if (head_[best_cell] == kNone) bit_word(best_cell) ^= bit(best_cell);
    return row;
  }

  /// Enters a row that is new or was taken out.
  void put(int64_t row, const BySide<int64_t>& room) {
    if (row >= static_cast<int64_t>(next_.size())) next_.resize(row + 1, kNone);
    const int64_t cell = room.inputs / step_.inputs * width_ + room.targets / step_.targets;
    next_[row] = head_[cell];
    head_[cell] = row;
    bit_word(cell) |= bit(cell);
  }

  static constexpr int64_t kNone = -1;

 private:
  static constexpr int64_t kMostCells = 1024;  // largest number of cells along a side
  static int64_t step_for(int64_t room) { return room / kMostCells + 1; }

  uint64_t& bit_word(int64_t cell) { return occupied_[cell / width_ * words_ + cell % width_ / 64]; }
  uint64_t bit(int64_t cell) const { return uint64_t{1} << (cell % width_ % 64); }

  /// Returns the x >= begin of the first occupied cell of grid line y, or kNone.
  int64_t first_occupied(int64_t y, int64_t begin) const {
    if (begin >= width_) return kNone;
    uint64_t word = occupied_[y * words_ + begin / 64] & (~uint64_t{0} << (begin % 64));
    for (int64_t w = begin / 64;;) {
      if (word != 0) return w * 64 + std::countr_zero(word);
      if (++w == words_) return kNone;
      word = occupied_[y * words_ + w];
    }
  }

  BySide<int64_t> step_;
  int64_t height_, width_, words_;
  std::vector<int64_t> head_;       ///< [height, width]: the first row of each cell's list, or kNone
  std::vector<uint64_t> occupied_;  ///< [height, words]: one bit per cell
  std::vector<int64_t> next_;       ///< [rows]: the next row in the list of the same cell, or kNone
  BySide<double> weight_;
};

/// Groups the examples by row; row_of[i] is the row of example i.
PackedRows grouped(const std::vector<int64_t>& row_of, int64_t rows) {
  PackedRows packed;
  packed.first.assign(rows + 1, 0);
  for (const int64_t row : row_of) ++packed.first[row + 1];
  std::partial_sum(packed.first.begin(), packed.first.end(), packed.first.begin());
  packed.examples.resize(row_of.size());
  std::vector<int64_t> next(packed.first.begin(), packed.first.end() - 1);
  for (size_t i = 0; i < row_of.size(); ++i) packed.examples[next[row_of[i]]++] = static_cast<int64_t>(i);
  return packed;
}

/// Numbers the rows by their first examples.
void number_by_first_example(std::vector<int64_t>& row_of, int64_t rows) {
  std::vector<int64_t> number(rows, -1);
  int64_t next = 0;
  for (int64_t& row : row_of) {
    if (number[row] < 0) number[row] = next++;
    row = number[row];
  }
}

}  // namespace

PackedRows pack_reference(std::span<const TokenCounts> examples, const BySide<int64_t>& row) {
  const int64_t chunk = std::max(row.inputs, row.targets);
  const auto count = static_cast<int64_t>(examples.size());
  PackedRows packed;
  BySide<int64_t> room = row;
  for (int64_t i = 0; i < count; ++i) {
    const TokenCounts& example = examples[i];
    const bool fits = example.inputs <= room.inputs && example.targets <= room.targets;
    if (i > 0 && (!fits || i % chunk == 0)) {
      packed.first.push_back(i);
      room = row;
    }
    room.inputs -= example.inputs;
    room.targets -= example.targets;
    packed.examples.push_back(i);
  }
  if (count > 0) packed.first.push_back(count);
  return packed;
}

PackedRows pack_dense(std::span<const TokenCounts> examples, const BySide<int64_t>& row,
                      const std::function<void()>& next_window) {
  constexpr size_t kWindow = 65536;
  const auto share = [](int64_t tokens, int64_t all) {
    return all == 0 ? 0.0 : static_cast<double>(tokens) / static_cast<double>(all);
  };
  const auto size = [&](int64_t i) {
    return share(examples[i].inputs, row.inputs) + share(examples[i].targets, row.targets);
  };
  OpenRows open(row);
  std::vector<BySide<int64_t>> room;  // [rows]: the room that is left in each row
  std::vector<int64_t> row_of(examples.size());
  std::vector<int64_t> order;
  for (size_t begin = 0; begin < examples.size(); begin += kWindow) {
    if (begin > 0 && next_window) next_window();
    order.resize(std::min(kWindow, examples.size() - begin));
    std::iota(order.begin(), order.end(), static_cast<int64_t>(begin));
    std::ranges::stable_sort(order, std::greater<>(), size);
    for (const int64_t i : order) {
      int64_t r = open.take(examples[i]);
      if (r == OpenRows::kNone) {
        r = static_cast<int64_t>(room.size());
        room.push_back(row);
      }
      room[r].inputs -= examples[i].inputs;
      room[r].targets -= examples[i].targets;
      open.put(r, room[r]);
      row_of[i] = r;
    }
  }
  const auto rows = static_cast<int64_t>(room.size());
  number_by_first_example(row_of, rows);
  return grouped(row_of, rows);
}

PackedRows pack_none(int64_t examples, int64_t of_row) {
  PackedRows packed;
  for (int64_t end = of_row; end <= examples; end += of_row) packed.first.push_back(end);
  packed.examples.resize(examples);
  std::iota(packed.examples.begin(), packed.examples.end(), int64_t{0});
  return packed;
}

}  // namespace mtf
