// How a matrix product (gemm.h) is cut into blocks that fit into the caches. The cut of rows and columns changes no bit of it.
#pragma once

#include <cstdint>

#include "engine/backend/cpu/contractions/gemm_kernels.h"
#include "engine/base/integer_division.h"

namespace mtf {

/// Panels of A that are packed at a time if their rows are neighbours in memory: a panel's rows are a part of a cache line.
inline constexpr int64_t kPanelsAtOnce = 8;
/// Strips of B that are packed in pairs at a time if its rows are contiguous: they are read in long runs.
inline constexpr int64_t kStripsAtOnce = 8;
inline constexpr int64_t kLine = 16;  ///< elements of a cache line

/// Cuts `rows` into panels of about equal sizes, none larger than `most`.
inline Panels panels_of(int64_t rows, int64_t most) {
  const int64_t count = ceil_divide(rows, most);
  return {count, rows / count, rows % count};
}

/// The block of a product that is multiplied at a time. One operand stays packed in L2; of the other, one
/// panel or strip at a time is in L1. If B is resident, C is written row by row; if A is resident, much
/// packing of B is saved when A has few rows, and less is read from L2.
struct ProductBlocks {
  bool a_resident;
  int64_t depths_of_element;  ///< depths that a packed element has: 2 if factors are packed in pairs
  /// The depth of one block, and of the blocks for which the resident operand is packed together.
  int64_t depth, group;
  int64_t rows, columns;  ///< extents of the resident operand; the other one is whole

  /// `in_pairs`: factors are packed in pairs of depths; `b_by_columns`: the columns of B are contiguous; `b_in_place`: rows of
  /// B are, and are read where they are.
  ProductBlocks(int64_t all_rows, int64_t all_columns, int64_t all_depth, bool in_pairs, bool b_by_columns,
                bool a_in_place, bool b_in_place, int64_t tile_rows, int64_t strip);
  /// The elements of packed A, including those by which the last vector exceeds a panel. At most `panel_rows` rows are packed
  /// at a time if A is not resident.
  int64_t elements_a(int64_t panel_rows) const;
};

}  // namespace mtf
