// Facts about all rows and the whole memory that the attention kernels need before they loop over tiles.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "engine/backend/cuda/attention/attention_masks.h"
#include "engine/backend/element.h"

namespace mtf::cuda {

/// Computes those results that are not null: what the rows see, and the ranges of the memory's ids. Groups that share
/// their ids (heads) share the work, and each gets a copy of the results. A block has a tile of rows, or one of the
/// memory, and a thread a row or an entry.
struct AttentionSights {
  using View = AttentionView;
  static constexpr int kMaxThreads = View::kTile;
  static constexpr int kWarps = kMaxThreads / kWarp;

  View view;
  int* least = nullptr;            ///< [groups][rows]: Sight::least
  SightRanges* sights = nullptr;   ///< [groups][tiles of rows]
  MemoryRanges* memory = nullptr;  ///< [groups][tiles of the memory]; null if the memory has no ids
  Divisor row_tiles, memory_tiles;

  explicit AttentionSights(const View& view)
      : view(view),
        row_tiles(row_tiles_of(view), shares(view) * row_tiles_of(view)),
        memory_tiles(memory_tiles_of(view), shares(view) * memory_tiles_of(view)) {}

  static int64_t row_tiles_of(const View& view) { return (view.rows + View::kTile - 1) / View::kTile; }
  static int64_t memory_tiles_of(const View& view) { return (view.memory + View::kTile - 1) / View::kTile; }
  LaunchShape shape() const {
    const int64_t tiles = row_tiles.value() + (memory != nullptr ? memory_tiles.value() : 0);
    return {shares(view) * tiles, kMaxThreads, kWarps * static_cast<int64_t>(sizeof(SightRanges))};
  }

  MTF_DEVICE void operator()(const Block& block) const {
    const int64_t row_blocks = shares(view) * row_tiles.value();
    if (block.index() < row_blocks) {
      find_sights(block);
    } else {
      find_memory(block, block.index() - row_blocks);
    }
  }

 private:
  MTF_HOST_DEVICE static int64_t shares(const View& view) { return view.groups.size() / view.sharing; }

  MTF_DEVICE void find_sights(const Block& block) const {
    const auto [share, tile] = row_tiles(block.index());
    const int64_t group = share * view.sharing;
    const View::Place place = view.groups.at(group);
    const int row = static_cast<int>(tile) * View::kTile + block.thread();
    const bool exists = row < view.rows;
    Sight sight = sight_of(view, place, exists ? row : view.rows - 1);
    if (view.memory_has_ids()) {
      if (view.masked()) sight.least = least_by_ids(block, place, row, sight);
    } else if (view.masked()) {
      sight.least = least_by_index(sight, view.memory);
    }
    for (int i = 0; exists && i < view.sharing; ++i) least[(group + i) * view.rows + row] = sight.least;
    if (sights == nullptr) return;
    SightRanges ranges;
    if (exists) ranges.add_sight(sight);
    write_ranges<6>(block, ranges, sights + group * row_tiles.value() + tile, row_tiles.value());
  }

  MTF_DEVICE void find_memory(const Block& block, int64_t index) const {
    const auto [share, tile] = memory_tiles(index);
    const int64_t group = share * view.sharing;
    const View::Place place = view.groups.at(group);
    const int entry = static_cast<int>(tile) * View::kTile + block.thread();
    MemoryRanges ranges;
    if (entry < view.memory) ranges.add_ids(memory_ids(view, place, entry));
    write_ranges<3>(block, ranges, memory + group * memory_tiles.value() + tile, memory_tiles.value());
  }

  /// Writes the ranges of the block to results that are `stride` apart.
  template <int N, class Ranges>
  MTF_DEVICE void write_ranges(const Block& block, const Ranges& of_thread, Ranges* results,
                               int64_t stride) const {
    Ranges* shared = block.shared<Ranges>();
    join_warps<N>(block, reduce_warp<N>(block, of_thread), shared);
    for (int i = block.thread(); i < view.sharing; i += block.threads()) results[i * stride] = shared[0];
  }

  /// Sight::least of the thread's row if the memory has ids. A row looks at the entry of its own index first. Then the
  /// lanes of a warp search together for one row after the other; all rows look at what one of them has found.
  MTF_DEVICE int least_by_ids(const Block& block, const View::Place& place, int row,
                              const Sight& sight) const {
    int start = view.first_query + view.folded(row).query;
    start = start < view.memory ? start : 0;
    int result = row < view.rows ? sight.hidden_by(memory_ids(view, place, start)) : 0;
    for (uint32_t pending = block.ballot(result != 0); pending != 0;) {
      const int lane = count_bits((pending & (~pending + 1)) - 1);  // the first
      const Found found = search(block, place, of_lane(block, sight, lane), block.shuffle(start, lane));
      if (block.lane() == lane) result = found.least;
      if (found.least == 0 && result != 0 && sight.sees(memory_ids(view, place, found.entry))) result = 0;
      pending &= ~(1u << lane) & block.ballot(result != 0);
    }
    return result;
  }

  struct Found {
    int least, entry;
  };
  /// Searches, beginning at an entry; every lane has the same arguments. The entry is one that the row sees if least
  /// is 0.
  MTF_DEVICE Found search(const Block& block, const View::Place& place, const Sight& sight, int start) const {
    constexpr int kEntries = 4;  // entries of a lane in one step
    Found found{kMostId, 0};
    for (int step = 0; step < view.memory; step += kWarp * kEntries) {
      for (int i = 0; i < kEntries; ++i) {
        const int ahead = step + i * kWarp + block.lane();
        if (ahead >= view.memory) continue;
        const int entry = ahead < view.memory - start ? start + ahead : start + ahead - view.memory;
        const int count = sight.hidden_by(memory_ids(view, place, entry));
        if (count < found.least) found = {count, entry};
      }
      const uint32_t seen = block.ballot(found.least == 0);
      if (seen != 0) return {0, block.shuffle(found.entry, count_bits((seen & (~seen + 1)) - 1))};
    }
    return {reduce_warp(block, found.least, Min{}), 0};
  }

  MTF_DEVICE static Sight of_lane(const Block& block, const Sight& sight, int lane) {
    return {block.shuffle(sight.segment, lane),  block.shuffle(sight.priority, lane),
            block.shuffle(sight.lower, lane),    block.shuffle(sight.upper, lane),
            block.shuffle(sight.position, lane), 0};
  }
};

/// The dot products of the rows of the result and of its gradient, minus the gradient of the log-sum-exp. Some lanes of a
/// warp have a row.
template <class T>
struct AttentionDeltas {
  using C = Computed<T>;
  using View = AttentionView;

  View view;
  const T* d_result;
  const C* d_log_sums;  ///< null if there are none
  C* deltas;            ///< [groups][rows]
  Divisor rows;
  bool packs;
  int lanes;  ///< that have a row: a power of two

  AttentionDeltas(const View& view, const T* d_result, const C* d_log_sums, C* deltas)
      : view(view),
        d_result(d_result),
        d_log_sums(d_log_sums),
        deltas(deltas),
        rows(view.rows, view.groups.size() * view.rows) {
    packs = view.aligned && view.value % kPack<T> == 0;
    const int steps = packs ? view.value / kPack<T> : view.value;
    lanes = static_cast<int>(std::min(std::bit_ceil(static_cast<unsigned>(steps)), unsigned{kWarp}));
  }
  LaunchShape shape() const { return over(view.groups.size() * view.rows * lanes, 1); }

  MTF_DEVICE void operator()(const Block& block) const {
    const int64_t count = view.groups.size() * view.rows, rows_of_warp = kWarp / lanes;
    const int64_t step = block.stride() / kWarp * rows_of_warp;
    for (int64_t first = block.first() / kWarp * rows_of_warp; first < count; first += step) {
      const int64_t index = first + block.lane() / lanes;
      C sum = 0;
      if (index < count) sum = packs ? product<kPack<T>>(block, index) : product<1>(block, index);
      for (int mask = lanes / 2; mask > 0; mask /= 2) sum += block.shuffle_xor(sum, mask);
      if (index < count && block.lane() % lanes == 0) deltas[index] = sum - d_log_sum(index);
    }
  }

 private:
  MTF_DEVICE C d_log_sum(int64_t index) const {
    if (d_log_sums == nullptr) return 0;
    const auto [group, row] = rows(index);
    const FoldedRow at = view.folded(static_cast<int>(row));
    return d_log_sums[view.groups.offset(group, View::kLogSum) +
                      at.query * view.length_strides[View::kLogSum] +
                      at.head * view.fold_strides[View::kLogSum]];
  }

  /// The lane's part.
  template <int N>
  MTF_DEVICE C product(const Block& block, int64_t index) const {
    const auto [group, row] = rows(index);
    const FoldedRow at = view.folded(static_cast<int>(row));
    const int64_t begin = view.groups.offset(group, View::kResult) +
                          at.query * view.length_strides[View::kResult] +
                          at.head * view.fold_strides[View::kResult];
    const T* result = static_cast<const T*>(view.data[View::kResult]) + begin;
    const T* gradient = d_result + begin;
    C sum = 0;
    for (int i = block.lane() % lanes * N; i < view.value; i += lanes * N) {
      const Pack<T, N> a = load<N>(result + i), b = load<N>(gradient + i);
      for (int n = 0; n < N; ++n) sum += widen(a[n]) * widen(b[n]);
    }
    return sum;
  }
};

}  // namespace mtf::cuda
