// Packs several short examples into one row. A row has a fixed number of token positions for inputs and
// another for targets, and its examples fit on both sides.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "data/sides.h"

namespace mtf {

/// The number of tokens of one example on each side; 0 for a side that the source does not have.
using TokenCounts = BySide<int32_t>;

/// Row r holds the examples examples[first[r]] .. examples[first[r + 1] - 1], in this order.
struct PackedRows {
  std::vector<int64_t> first = {0};
  std::vector<int64_t> examples;

  int64_t rows() const { return static_cast<int64_t>(first.size()) - 1; }
};

/// Packs examples, each of which fits into `row` on both sides, as Mesh TensorFlow does
/// (mesh_tensorflow/transformer/dataset.py, pack_dataset).
///
/// The examples keep their order and one row is open at a time. It is closed before the first example that
/// does not fit, and after each chunk of max(row.inputs, row.targets) examples.
PackedRows pack_reference(std::span<const TokenCounts> examples, const BySide<int64_t>& row);

/// Packs densely by best fit decreasing (Johnson: Near-optimal bin packing algorithms, 1973): in windows of
/// 65,536 examples, longest first, each example goes into the row in which it leaves the least room. Rows
/// stay open for the following windows. Rows are ordered by their first examples, and the examples of a row
/// keep their order. Time is linear except for the sorting within a window. `next_window` is called before each window but the
/// first one; it may throw to end the work.
PackedRows pack_dense(std::span<const TokenCounts> examples, const BySide<int64_t>& row,
                      const std::function<void()>& next_window = {});

/// Puts `of_row` successive examples into each row.
PackedRows pack_none(int64_t examples, int64_t of_row = 1);

}  // namespace mtf
