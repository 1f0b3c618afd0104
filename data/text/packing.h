// Several short texts in one row: which examples stand together. Rows have a number of places for inputs and
// one for targets; the examples of a row fit on both sides.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/sides.h"

namespace mtf {

/// Tokens of one example on each side; 0 on a side that there is not.
using TokenCounts = BySide<int32_t>;

/// Row r has the examples examples[first[r]] .. examples[first[r + 1]], in this order.
struct PackedRows {
  std::vector<int64_t> first = {0};
  std::vector<int64_t> examples;

  int64_t rows() const { return static_cast<int64_t>(first.size()) - 1; }
};

/// Each example is no longer than `row` on either side.
///
/// As Mesh TensorFlow packs (mesh_tensorflow/transformer/dataset.py, pack_dataset): in the order of the
/// examples, one open row at a time, which ends with the first example that does not fit, and with each chunk
/// of max(row.inputs, row.targets) examples.
PackedRows pack_reference(std::span<const TokenCounts> examples, const BySide<int64_t>& row);

/// Dense: in windows of 65,536 examples, longest first, each into the row in which it leaves the least room
/// (best fit decreasing; Johnson: Near-optimal bin packing algorithms, 1973); rows stay open for the windows
/// that follow. Rows come in the order of their first examples, examples in their own order. Time is linear
/// but for the sorting of a window.
PackedRows pack_dense(std::span<const TokenCounts> examples, const BySide<int64_t>& row);

/// One example in each row.
PackedRows pack_none(int64_t examples);

}  // namespace mtf
