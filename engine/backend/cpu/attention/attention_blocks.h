// Products of small blocks in scratch memory, for the attention kernels. They use the tiles of the matrix
// product (gemm_kernels.h) without blocking, since all operands are in the caches.
//
// An operand whose columns are entries of the memory and whose depth is `key` or `value` is packed into
// panels. Its rows are padded with zeros to whole vectors (padded()).
#pragma once

#include <cstdint>

#include "engine/backend/element.h"

namespace mtf {

/// c [rows x columns] = (add ? c : 0) + a [rows x depth] * b [depth x columns]. `columns` is a number of
/// whole vectors; they are contiguous in c, and contiguous or in consecutive panels in b. An entry is summed
/// in order of depth, whatever the extents of the block.
template <class C>
struct BlockProduct {
  int64_t rows = 0, columns = 0, depth = 0;
  const C* a = nullptr;
  int64_t a_row_stride = 0, a_depth_stride = 0;
  const C* b = nullptr;
  int64_t b_depth_stride = 0;
  C* c = nullptr;
  int64_t c_row_stride = 0;
  bool add = false;
  int64_t b_panel_stride = 0;  ///< 0: columns are contiguous
};
void multiply_block(const BlockProduct<float>& product);
void multiply_block(const BlockProduct<double>& product);

/// Block sizes for the machine's instruction set.
struct BlockSizes {
  int64_t tile_rows;  ///< rows computed at a time; at most kMaximalTileRows
  int64_t vector;     ///< entries of a vector
  int64_t panel;      ///< columns of a panel: two vectors

  /// The width of a panel with so many columns: the last panel may be one vector wide.
  int64_t panel_stride(int64_t columns) const { return columns > vector ? panel : vector; }
};
template <class C>
BlockSizes block_sizes();

/// The largest part if `size` is cut into the fewest parts of about equal size, none larger than `most`.
inline int64_t balanced(int64_t size, int64_t most) {
  const int64_t parts = (size + most - 1) / most;
  return (size + parts - 1) / parts;
}

/// Rows of a block, in scratch or in an operand.
template <class C>
struct BlockRows {
  C* data = nullptr;
  int64_t stride = 0;
  C* row(int64_t i) const { return data + i * stride; }
};

/// Multiplies with the panels of entries first ... last - 1 of the memory; `first` must be the begin of a
/// panel.
template <class C>
void multiply_panels(BlockProduct<C> product, const C* panels, int64_t memory, int64_t first, int64_t last);

/// `columns` rounded up to whole vectors of any instruction set.
inline int64_t padded(int64_t columns) { return (columns + 15) / 16 * 16; }

/// to[depth][panel_stride(columns)] = the transpose of `columns` rows of `depth` contiguous elements.
template <class T>
void pack_panel(const T* from, int64_t stride, int64_t columns, int64_t depth, Computed<T>* to);

/// to[rows][padded(columns)] = rows of `columns` contiguous elements.
template <class T>
void copy_rows(const T* from, int64_t stride, int64_t rows, int64_t columns, Computed<T>* to);

/// The inverse of copy_rows: stores `rows` padded rows into an operand.
template <class T>
void store_rows(const Computed<T>* from, int64_t rows, int64_t columns, T* to, int64_t stride);

}  // namespace mtf
