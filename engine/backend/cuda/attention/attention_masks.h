// Computes which entries of the memory a query sees (engine/backend/cpu/attention/attention_masks.h), and
// what tiles of queries see of tiles of the memory.
#pragma once

#include <cstdint>
#include <limits>

#include "engine/backend/cuda/attention/attention_view.h"

namespace mtf::cuda {

inline constexpr int kLeastId = std::numeric_limits<int>::min(), kMostId = std::numeric_limits<int>::max();

struct MemoryIds {
  int segment, priority, position;
};

/// The entries that a query sees: those of its segment with priority <= its own and lower <= position <=
/// upper. A limit that does not exist is the extreme value of int.
struct Sight {
  int segment, priority, lower, upper, position;
  /// The query sees the entries that exactly this many masks hide: 0, or, if every entry is hidden, the
  /// smallest number. -1 if it sees none (rows beyond the end).
  int least;

  MTF_DEVICE int hidden_by(const MemoryIds& ids) const {
    return (ids.segment != segment) + (ids.priority > priority) + (ids.position > upper) +
           (ids.position < lower);
  }
  MTF_DEVICE bool sees(const MemoryIds& ids) const { return hidden_by(ids) == least; }
  /// If the memory has no ids and `least` is 0, the query sees the entries [lower, end()).
  MTF_DEVICE int64_t end() const { return int64_t{priority < upper ? priority : upper} + 1; }
};

MTF_DEVICE int clamped_id(int64_t value) {
  return static_cast<int>(value < kLeastId ? kLeastId : value > kMostId ? kMostId : value);
}

MTF_DEVICE MemoryIds memory_ids(const AttentionView& view, const AttentionView::Place& place, int entry) {
  const auto id = [&](int operand, int otherwise) {
    return view.has(operand) ? view.of_group<int>(place, operand)[entry] : otherwise;
  };
  return {id(AttentionView::kMemorySegment, 0), id(AttentionView::kMemoryPriority, entry),
          id(AttentionView::kMemoryPosition, entry)};
}

/// The Sight of a row, with `least` 0.
MTF_DEVICE Sight sight_of(const AttentionView& view, const AttentionView::Place& place, int row) {
  const FoldedRow at = view.folded(row);
  const int index = view.first_query + at.query;
  const auto id = [&](int operand, int otherwise) {
    return view.has(operand) ? *view.row<int>(place, operand, at) : otherwise;
  };
  Sight sight{0, kMostId, kLeastId, kMostId, id(AttentionView::kQueryPosition, index), 0};
  if (view.by_segment) sight.segment = id(AttentionView::kQuerySegment, 0);
  if (view.by_priority) sight.priority = id(AttentionView::kQueryPriority, index);
  if (view.by_lower) sight.lower = clamped_id(int64_t{sight.position} + view.min_relative);
  if (view.by_upper) sight.upper = clamped_id(int64_t{sight.position} + view.max_relative);
  return sight;
}

/// Sight::least if the memory has no ids. The number of masks that hide an entry then changes only at a few
/// entries, which are tested.
MTF_DEVICE int least_by_index(const Sight& sight, int memory) {
  const int64_t limits[] = {0, int64_t{sight.priority} + 1, sight.lower, int64_t{sight.upper} + 1};
  int least = kMostId;
  for (int64_t limit : limits) {
    for (int64_t entry = limit - 1; entry <= limit; ++entry) {
      const int64_t inside = entry < 0 ? 0 : entry < memory ? entry : memory - 1;
      const int index = static_cast<int>(inside), count = sight.hidden_by({sight.segment, index, index});
      least = count < least ? count : least;
    }
  }
  return least;
}

/// The ranges of several ids; initially empty.
template <int N>
struct IdRanges {
  int least[N], most[N];

  MTF_DEVICE IdRanges() {
    for (int n = 0; n < N; ++n) least[n] = kMostId, most[n] = kLeastId;
  }
  MTF_DEVICE void add(const int (&ids)[N]) { add(ids, ids); }
  MTF_DEVICE void add(const IdRanges& other) { add(other.least, other.most); }

 private:
  MTF_DEVICE void add(const int (&others_least)[N], const int (&others_most)[N]) {
    for (int n = 0; n < N; ++n) {
      least[n] = others_least[n] < least[n] ? others_least[n] : least[n];
      most[n] = others_most[n] > most[n] ? others_most[n] : most[n];
    }
  }
};

/// Merges the ranges of the lanes of a warp.
template <int N>
MTF_DEVICE IdRanges<N> reduce_warp(const Block& block, IdRanges<N> ranges) {
  for (int n = 0; n < N; ++n) {
    ranges.least[n] = reduce_warp(block, ranges.least[n], Min{});
    ranges.most[n] = reduce_warp(block, ranges.most[n], Max{});
  }
  return ranges;
}
/// Merges the ranges of the warps of a block, each of which is the same in all lanes of its warp, into
/// shared[0]. `shared` has one element for each warp. Begins and ends with a barrier.
template <int N>
MTF_DEVICE void join_warps(const Block& block, const IdRanges<N>& ranges, IdRanges<N>* shared) {
  block.sync();
  if (block.lane() == 0) shared[block.warp()] = ranges;
  block.sync();
  if (block.thread() == 0) {
    for (int warp = 1; warp < block.warps(); ++warp) shared[0].add(shared[warp]);
  }
  block.sync();
}

/// The ranges of the sights of a tile of queries.
struct SightRanges : IdRanges<6> {
  enum : int { kSegment, kPriority, kLower, kUpper, kPosition, kLeast };
  MTF_DEVICE void add_sight(const Sight& s) {
    add({s.segment, s.priority, s.lower, s.upper, s.position, s.least});
  }
  /// True if some queries see hidden entries.
  MTF_DEVICE bool see_hidden() const { return most[kLeast] > 0; }
};

/// The entries [first, last) of the memory that masks by index leave visible to the queries of a tile.
struct IndexLimits {
  int first, last;

  MTF_DEVICE IndexLimits(const AttentionView& view, const SightRanges& sights) : first(0), last(view.memory) {
    if (!view.masked() || sights.see_hidden()) return;
    if (!view.has(AttentionView::kMemoryPriority)) end_behind(sights.most[SightRanges::kPriority]);
    if (!view.has(AttentionView::kMemoryPosition)) {
      end_behind(sights.most[SightRanges::kUpper]);
      const int lower = sights.least[SightRanges::kLower];
      first = lower < 0 ? 0 : lower < last ? lower : last;
    }
  }

 private:
  MTF_DEVICE void end_behind(int entry) { last = entry < 0 ? 0 : entry < last ? entry + 1 : last; }
};

/// The ranges of the ids of a tile of the memory.
struct MemoryRanges : IdRanges<3> {
  enum : int { kSegment, kPriority, kPosition };
  MTF_DEVICE void add_ids(const MemoryIds& ids) { add({ids.segment, ids.priority, ids.position}); }
  /// The ranges of entries [begin, end) of a memory without ids.
  MTF_DEVICE static MemoryRanges of_indices(int begin, int end) {
    MemoryRanges ranges;
    ranges.add_ids({0, begin, begin});
    ranges.add_ids({0, end - 1, end - 1});
    return ranges;
  }
};

/// The ranges of ids begin ... end - 1 from those of tiles of AttentionView::kTile, some of which may extend beyond.
template <class Ranges>
MTF_DEVICE Ranges joined_ranges(const Ranges* tiles, int begin, int end) {
  constexpr int kTile = AttentionView::kTile;
  Ranges result = tiles[begin / kTile];
  for (int tile = begin / kTile + 1; tile * kTile < end; ++tile) result.add(tiles[tile]);
  return result;
}

/// Bits that describe what the queries of a tile see of a tile of the memory.
enum Visibility : int {
  kSeesNone = 0,
  kSeesSome = 1,
  kSeesAll = 2,     ///< set besides kSeesSome: every query sees every entry
  kSeesHidden = 4,  ///< some queries see hidden entries
  kFarBefore = 8,   ///< all entries have the bias of the farthest positions before the queries ...
  kFarBehind = 16,  ///< ... or after them
};
inline constexpr int kVisibilities = 32;

/// `whole`: neither tile extends beyond the end.
MTF_DEVICE int visibility(const AttentionView& view, const SightRanges& q, const MemoryRanges& m,
                          bool whole) {
  int result = whole ? kSeesSome | kSeesAll : kSeesSome;
  if (view.masked()) {
    const bool none = (view.by_segment && (m.least[m.kSegment] > q.most[q.kSegment] ||
                                           m.most[m.kSegment] < q.least[q.kSegment])) ||
                      m.least[m.kPriority] > q.most[q.kPriority] || m.least[m.kPosition] > q.most[q.kUpper] ||
                      m.most[m.kPosition] < q.least[q.kLower];
    if (none && !q.see_hidden()) return kSeesNone;
    const bool all = (!view.by_segment || (m.least[m.kSegment] == q.most[q.kSegment] &&
                                           m.most[m.kSegment] == q.least[q.kSegment])) &&
                     m.most[m.kPriority] <= q.least[q.kPriority] &&
                     m.most[m.kPosition] <= q.least[q.kUpper] && m.least[m.kPosition] >= q.most[q.kLower];
    if (!all) result = kSeesSome;
    if (q.see_hidden()) result = kSeesSome | kSeesHidden;
  }
  if (view.farthest > 0) {
    if (int64_t{m.most[m.kPosition]} - q.least[q.kPosition] <= -view.farthest) result |= kFarBefore;
    if (int64_t{m.least[m.kPosition]} - q.most[q.kPosition] >= view.farthest) result |= kFarBehind;
  }
  return result;
}

/// Lists those tiles of [first, end) with visibility_of(tile) other than kSeesNone, of the first as many as
/// the block has threads. The elements of `list` are tile * kVisibilities + visibility; `counts` has one
/// element for each warp. Returns the number of tiles. Begins and ends with a barrier.
template <class VisibilityOf>
MTF_DEVICE int list_tiles(const Block& block, int first, int end, const VisibilityOf& visibility_of,
                          int* list, int* counts) {
  const int tile = first + block.thread();
  const int visibility = tile < end ? visibility_of(tile) : kSeesNone;
  const uint32_t seen = block.ballot(visibility != kSeesNone);
  block.sync();
  if (block.lane() == 0) counts[block.warp()] = count_bits(seen);
  block.sync();
  int begin = 0, total = 0;
  for (int warp = 0; warp < block.warps(); ++warp) {
    if (warp == block.warp()) begin = total;
    total += counts[warp];
  }
  if (visibility != kSeesNone)
    list[begin + count_bits(seen & ((1u << block.lane()) - 1))] = tile * kVisibilities + visibility;
  block.sync();
  return total;
}

}  // namespace mtf::cuda
