// AttentionView describes the operands of attention for device kernels. A *group* is one index of the
// dimensions that k has (batch, heads) with one of the heads that share its memory; its *rows* are the
// queries that attend to this memory. Where possible, heads that share a memory are *folded* into rows of one
// group: row i is query i / fold of head i % fold.
#pragma once

#include <cstdint>

#include "engine/backend/attention_geometry.h"
#include "engine/backend/cuda/device/element_walk.h"

namespace mtf::cuda {

/// The query and folded head of a row of a group.
struct FoldedRow {
  int query, head;
  MTF_HOST_DEVICE FoldedRow(int row, int fold) : query(row), head(0) {
    if (fold == 1) return;
    query = static_cast<int>(static_cast<unsigned>(row) / static_cast<unsigned>(fold));
    head = row - query * fold;
  }
};

/// The rows of a tile of an operand; those outside [first, last) are read as zeros.
template <class T>
struct TileRows {
  const T* data;  ///< row 0 of the group
  int64_t stride, fold_stride;
  int fold;
  int begin;        ///< the tile's first row
  int first, last;  ///< rows of the tile that exist
  int columns;

  MTF_DEVICE bool has(int row) const { return row >= first && row < last; }
  MTF_DEVICE const T* at(int row) const {
    const FoldedRow at(begin + row, fold);
    return data + at.query * stride + at.head * fold_stride;
  }
};

struct AttentionView : AttentionKernelOperands {
  using Place = Offsets<kOperands>;
  /// The number of rows, or of entries of the memory, of a tile.
  static constexpr int kTile = 64;
  /// The largest `farthest` for which the bias is copied to shared memory.
  static constexpr int kFarthestShared = 1024;

  Strided<kOperands> groups;  ///< groups of one entry are consecutive
  int heads = 1;              ///< number of groups of an entry
  int sharing = 1;            ///< as many consecutive groups have the same ids
  int rows = 1;               ///< number of rows of a group
  int fold = 1;
  int64_t length_strides[kOperands] = {}, fold_strides[kOperands] = {};
  int memory = 1, key = 1, value = 1;
  int64_t key_stride = 0, value_stride = 0;  ///< between entries of the memory in k and in v

  bool by_segment = false, by_priority = false, by_lower = false, by_upper = false;
  int min_relative = 0, max_relative = 0;  ///< used if by_lower, by_upper
  int first_query = 0;                     ///< index of the first query of the slice
  double extra_logit = 0;                  ///< -infinity if there is none
  double soft_cap = 0, share_of_cap = 0;   ///< 0 if there is none; 1 / soft_cap
  /// The bias is indexed by relative position from -farthest to farthest; 0 if there is no bias.
  int farthest = 0, bucket_count = 0;
  const int32_t* buckets = nullptr;
  /// True if rows of q, k, v and the result begin at multiples of kPackBytes.
  bool aligned = false;

  uint32_t operands = 0;  ///< bit i: operand i exists
  const void* data[kOperands] = {};

  MTF_HOST_DEVICE bool has(int operand) const { return operands >> operand & 1; }
  MTF_HOST_DEVICE bool masked() const { return by_segment || by_priority || by_lower || by_upper; }
  /// True if the memory has ids.
  MTF_HOST_DEVICE bool memory_has_ids() const {
    return has(kMemorySegment) || has(kMemoryPriority) || has(kMemoryPosition);
  }
  /// True if the noise differs between the rows of a group.
  MTF_HOST_DEVICE bool noise_by_row() const { return length_strides[kNoise] != 0; }
  MTF_HOST_DEVICE bool has_soft_cap() const { return soft_cap > 0; }
  MTF_HOST_DEVICE bool has_extra_logit() const { return extra_logit > -__builtin_huge_val(); }
  MTF_HOST_DEVICE FoldedRow folded(int row) const { return FoldedRow(row, fold); }

  /// The offset of a row of the group at `place`.
  MTF_DEVICE int64_t offset(const Place& place, int operand, const FoldedRow& row) const {
    return place[operand] + row.query * length_strides[operand] + row.head * fold_strides[operand];
  }
  MTF_DEVICE int64_t offset(const Place& place, int operand, int row) const {
    return offset(place, operand, folded(row));
  }
  template <class T>
  MTF_DEVICE const T* row(const Place& place, int operand, const FoldedRow& row) const {
    return static_cast<const T*>(data[operand]) + offset(place, operand, row);
  }
  template <class T>
  MTF_DEVICE const T* of_group(const Place& place, int operand) const {
    return static_cast<const T*>(data[operand]) + place[operand];
  }

  /// The rows `begin` ... begin + count - 1 of q or the result, or entries of k or v.
  template <class T>
  MTF_DEVICE TileRows<T> tile_of_queries(const Place& place, int operand, int begin, int count) const {
    const int rest = rows - begin;
    return {of_group<T>(place, operand), length_strides[operand],    fold_strides[operand], fold, begin, 0,
            rest < count ? rest : count, operand == kQ ? key : value};
  }
  template <class T>
  MTF_DEVICE TileRows<T> tile_of_memory(const Place& place, int operand, int begin, int count) const {
    const int rest = memory - begin;
    return {of_group<T>(place, operand),
            operand == kK ? key_stride : value_stride,
            0,
            1,
            begin,
            0,
            rest < count ? rest : count,
            operand == kK ? key : value};
  }
};

/// Divides a block's shared memory, or scratch memory, into parts. The same calls compute the size on the
/// host and the offsets on the device.
class MemoryParts {
 public:
  template <class T>
  MTF_HOST_DEVICE int64_t take(int64_t count) {
    const int64_t begin = bytes_;
    bytes_ += (count * static_cast<int64_t>(sizeof(T)) + kPackBytes - 1) / kPackBytes * kPackBytes;
    return begin;
  }
  MTF_HOST_DEVICE int64_t bytes() const { return bytes_; }

 private:
  int64_t bytes_ = 0;
};

}  // namespace mtf::cuda
