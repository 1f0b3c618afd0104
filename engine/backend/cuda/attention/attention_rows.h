// Facts about all rows and the whole memory that the attention kernels need before they loop over tiles.
#pragma once

#include <cstdint>

#include "engine/backend/cuda/attention/attention_masks.h"
#include "engine/backend/element.h"

namespace mtf::cuda {

/// Computes the ranges of the memory's ids for each group and tile, with one warp for each.
struct AttentionMemoryRanges {
  static constexpr int kMaxThreads = 128;
  static constexpr int kWarps = kMaxThreads / kWarp;

  AttentionView view;
  MemoryRanges* ranges;
  Divisor tiles;

  AttentionMemoryRanges(const AttentionView& view, MemoryRanges* ranges)
      : view(view), ranges(ranges), tiles(tiles_of(view), view.groups.size() * tiles_of(view) + kWarps) {}

  static int64_t tiles_of(const AttentionView& view) {
    return (view.memory + AttentionView::kTile - 1) / AttentionView::kTile;
  }
  LaunchShape shape() const {
    return {(view.groups.size() * tiles.value() + kWarps - 1) / kWarps, kMaxThreads, 0};
  }

  MTF_DEVICE void operator()(const Block& block) const {
    const int64_t index = block.index() * kWarps + block.warp();
    const auto [group, tile] = tiles(index);
    if (group >= view.groups.size()) return;
    const AttentionView::Place place = view.groups.at(group);
    MemoryRanges of_lane;
    for (int i = block.lane(); i < AttentionView::kTile; i += kWarp) {
      const int entry = static_cast<int>(tile) * AttentionView::kTile + i;
      if (entry < view.memory) of_lane.add_ids(memory_ids(view, place, entry));
    }
    const IdRanges<3> of_tile = reduce_warp<3>(block, of_lane);
    if (block.lane() == 0) static_cast<IdRanges<3>&>(ranges[index]) = of_tile;
  }
};

/// Computes those outputs that are not null, with a block for each group and tile of rows and a warp for each
/// row.
template <class T>
struct AttentionRows {
  using C = Computed<T>;
  using View = AttentionView;
  static constexpr int kMaxThreads = 128;
  static constexpr int kWarps = kMaxThreads / kWarp;

  View view;
  const T* d_result = nullptr;
  int* least = nullptr;           ///< [groups][rows]
  SightRanges* ranges = nullptr;  ///< [groups][tiles]
  C* deltas = nullptr;            ///< [groups][rows]: dot products of the result and its gradient
  Divisor tiles;

  explicit AttentionRows(const View& view)
      : view(view), tiles(tiles_of(view), view.groups.size() * tiles_of(view)) {}

  static int64_t tiles_of(const View& view) { return (view.rows + View::kTile - 1) / View::kTile; }
  LaunchShape shape() const {
    return {view.groups.size() * tiles.value(), kMaxThreads,
            kWarps * static_cast<int64_t>(sizeof(SightRanges))};
  }

  MTF_DEVICE void operator()(const Block& block) const {
    const auto [group, tile] = tiles(block.index());
    const View::Place place = view.groups.at(group);
    const int end = view.rows < (static_cast<int>(tile) + 1) * View::kTile
                        ? view.rows
                        : (static_cast<int>(tile) + 1) * View::kTile;
    SightRanges of_warp;
    for (int row = static_cast<int>(tile) * View::kTile + block.warp(); row < end; row += kWarps) {
      Sight sight = sight_of(view, place, row);
      if (view.memory_has_ids()) {
        if (view.masked()) sight.least = least_by_ids(block, view, place, row, sight);
      } else if (view.masked()) {
        sight.least = least_by_index(sight, view.memory);
      }
      of_warp.add_sight(sight);
      if (block.lane() == 0) least[group * view.rows + row] = sight.least;
      if (deltas != nullptr) {
        const C delta = product(block, place, row);
        if (block.lane() == 0) deltas[group * view.rows + row] = delta;
      }
    }
    if (ranges == nullptr) return;
    SightRanges* shared = block.shared<SightRanges>();
    join_warps<6>(block, of_warp, shared);
    if (block.thread() == 0) ranges[block.index()] = shared[0];
  }

 private:
  /// The dot product of a row of the result and its gradient.
  MTF_DEVICE C product(const Block& block, const View::Place& place, int row) const {
    const int64_t begin = view.offset(place, View::kResult, row);
    const T* result = static_cast<const T*>(view.data[View::kResult]);
    C sum = 0;
    for (int i = block.lane(); i < view.value; i += kWarp)
      sum += widen(result[begin + i]) * widen(d_result[begin + i]);
    return reduce_warp(block, sum, Sum{});
  }
};

}  // namespace mtf::cuda
