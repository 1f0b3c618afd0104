// The work between the products of attention: what a block stores of a tile of queries and a tile of the
// memory, and what it does to a tile of logits q.k, which the threads hold in registers as the products leave
// them (attention_fma_tiles.h, attention_mma_tiles.h). In kernels for gradients of the memory the rows of a
// tile are entries of the memory.
#pragma once

#include <cstdint>
#include <type_traits>

#include "engine/backend/cuda/attention/attention_masks.h"
#include "engine/backend/cuda/attention/attention_norm.h"
#include "engine/backend/cuda/attention/tile_mma.h"
#include "engine/backend/element.h"

namespace mtf::cuda {

/// The bias by relative position; in shared memory, unless it is long and `kMayBeLong`.
template <class C, bool kMayBeLong>
class BiasByPosition {
 public:
  static constexpr int kFarthestShared = AttentionView::kFarthestShared;
  MTF_HOST_DEVICE static int64_t shared_elements(const AttentionView& view) {
    return view.farthest > kFarthestShared ? 0 : view.farthest > 0 ? 2 * view.farthest + 1 : 0;
  }

  MTF_DEVICE BiasByPosition(const AttentionView& view, C* shared)
      : farthest_(view.farthest), buckets_(view.buckets), shared_(shared), table_(nullptr) {}
  /// The caller must let a barrier follow.
  MTF_DEVICE void load(const Block& block, const AttentionView& view, const AttentionView::Place& place) {
    if (farthest_ == 0) return;
    table_ = view.of_group<C>(place, AttentionView::kBiasTable);
    if (farthest_ > kFarthestShared) return;
    for (int i = block.thread(); i <= 2 * farthest_; i += block.threads()) shared_[i] = table_[buckets_[i]];
  }

  MTF_DEVICE bool any() const { return farthest_ > 0; }
  /// The bias at a memory position minus a query position.
  MTF_DEVICE C operator()(int relative) const {
    const int i = index(relative);
    return kMayBeLong && farthest_ > kFarthestShared ? table_[buckets_[i]] : shared_[i];
  }
  MTF_DEVICE int bucket(int relative) const { return buckets_[index(relative)]; }
  /// The relative position that stands for a tile all of whose entries have the farthest bias of one side.
  MTF_DEVICE int far_position(int visibility) const {
    return visibility & kFarBefore ? -farthest_ : farthest_;
  }

 private:
  MTF_DEVICE int index(int relative) const {
    return (relative < -farthest_ ? -farthest_ : relative > farthest_ ? farthest_ : relative) + farthest_;
  }

  int farthest_;
  const int32_t* buckets_;
  C* shared_;
  const C* table_;
};

/// A block's shared memory for a tile of queries and a tile of the memory, and its operations on logits. The
/// terms of the tiles that the block loops over (the columns of logits) have two stages: those of the next
/// tile are loaded while the current tile is computed.
template <class Tiles, bool kMemoryRows>
class TileTerms {
 public:
  using C = typename Tiles::C;
  using View = AttentionView;
  static constexpr int kQueries = kMemoryRows ? Tiles::kColumns : Tiles::kRows;
  static constexpr int kEntries = kMemoryRows ? Tiles::kRows : Tiles::kColumns;
  static constexpr int kStagesOfQueries = kMemoryRows ? 2 : 1, kStagesOfMemory = kMemoryRows ? 1 : 2;

  /// Parts of fixed sizes, so that the compiler knows their offsets.
  struct Parts {
    int64_t place, sights, memory, noise, seen;
    MTF_HOST_DEVICE explicit Parts(MemoryParts& parts)
        : place(parts.take<View::Place>(1)),
          sights(parts.take<Sight>(kQueries * kStagesOfQueries)),
          memory(parts.take<MemoryIds>(kEntries * kStagesOfMemory)),
          noise(parts.take<C>(kEntries * kStagesOfMemory)),
          seen(parts.take<uint32_t>(Tiles::kRows * kWords)) {}
  };

  /// `bias_part` is the offset of BiasByPosition::shared_elements() elements.
  MTF_DEVICE TileTerms(const Block& block, const View& view, const Parts& parts, int64_t bias_part)
      : view(view),
        place(*block.shared<View::Place>(parts.place)),
        bias(view, block.shared<C>(bias_part)),
        block_(block),
        sights_(block.shared<Sight>(parts.sights)),
        memory_(block.shared<MemoryIds>(parts.memory)),
        noise_(block.shared<C>(parts.noise)),
        seen_(block.shared<uint32_t>(parts.seen)),
        noise_by_row_(view.noise_by_row()) {}

  /// Begins and ends with a barrier.
  MTF_DEVICE void begin_group(int64_t group) {
    block_.sync();
    if (block_.thread() < View::kOperands)
      place[block_.thread()] = view.groups.offset(group, block_.thread());
    block_.sync();
    bias.load(block_, view, place);
    block_.sync();
  }

  /// Loads the sights of rows begin ... begin + kQueries - 1 to a stage and returns the ranges of those that
  /// this thread has loaded. `least` are the values of the group; if null, they are computed from indices.
  MTF_DEVICE SightRanges load_sights(const int* least, int begin, int stage = 0) {
    SightRanges ranges;
    for (int i = block_.thread(); i < kQueries; i += block_.threads()) {
      const int row = begin + i;
      Sight sight{0, 0, 0, 0, 0, -1};
      if (row < view.rows) {
        sight = sight_of(view, place, row);
        if (least != nullptr) {
          sight.least = least[row];
        } else if (view.masked()) {
          sight.least = least_by_index(sight, view.memory);
        }
        ranges.add_sight(sight);
      }
      sights_[stage * kQueries + i] = sight;
    }
    return ranges;
  }

  /// Loads ids and noise of entries begin ... begin + kEntries - 1 to a stage.
  MTF_DEVICE void load_memory(int begin, int stage = 0) {
    for (int i = block_.thread(); i < kEntries; i += block_.threads()) {
      const int entry = begin + i, at = stage * kEntries + i;
      const bool exists = entry < view.memory;
      memory_[at] = exists ? memory_ids(view, place, entry) : MemoryIds{0, 0, 0};
      if (view.has(View::kNoise) && !noise_by_row_)
        noise_[at] = exists ? view.template of_group<C>(place, View::kNoise)[entry] : C(0);
    }
  }

  /// Sets the tile that the following functions are about: its first query and entry, and its stage.
  MTF_DEVICE void select(int first_query, int first_entry, int stage) {
    first_query_ = first_query;
    first_entry_ = first_entry;
    stage_ = stage;
  }

  /// Computes which elements of its rows a warp sees, for sees_any() and complete().
  MTF_DEVICE void find_seen(int visibility) {
    if (visibility & kSeesAll) return;
    constexpr int kRowsOfWarp = Tiles::kRows / (Tiles::kThreads / kWarp);
    uint32_t seen = 0;
    for (int i = block_.lane(); i < kRowsOfWarp * kWords; i += kWarp) {
      const int row = block_.warp() * kRowsOfWarp + i / kWords, first = i % kWords * 32;
      const uint32_t bits = kMemoryRows || view.memory_has_ids() || visibility & kSeesHidden
                                ? seen_by_ids(row, first)
                                : seen_by_index(row, first);
      seen_[row * kWords + i % kWords] = bits;
      seen |= bits;
    }
    for (int mask = kWords; mask < kWarp; mask *= 2) seen |= block_.shuffle_xor(seen, mask);
    MTF_UNROLL(kWords)
    for (int word = 0; word < kWords; ++word) seen_by_warp_[word] = block_.shuffle(seen, word);
    block_.sync_warp();
  }
  /// True if some of the warp's rows see one of the columns from `first` on that are computed at a time.
  MTF_DEVICE bool sees_any(int visibility, int first) const {
    return visibility & kSeesAll || columns_from(seen_by_warp_, first) != 0;
  }

  /// Makes logits of the products q.k of the columns from `first` on: bounds them and adds the bias. Logits of
  /// invisible entries become -infinity, and all logits of a query that sees only hidden entries become 0, unless
  /// `keeps_hidden`.
  MTF_DEVICE void complete(const Tiles& tiles, int visibility, int first, typename Tiles::Scores& logits,
                           bool keeps_hidden = false) const {
    if (view.has_soft_cap()) {
      const SoftCap<C> cap(view);
      MTF_UNROLL(Tiles::kThreadRows)
      for (int i = 0; i < Tiles::kThreadRows; ++i) {
        MTF_UNROLL(Tiles::kThreadColumns)
        for (int j = 0; j < Tiles::kThreadColumns; ++j) logits[i][j] = cap(logits[i][j]);
      }
    }
    if (bias.any()) add_bias(tiles, visibility, first, logits);
    if (visibility & kSeesHidden && !keeps_hidden) {
      for_each(tiles, first, [&](int i, int j, int query, int) {
        if (sees_hidden(visibility, query)) logits[i][j] = 0;
      });
    }
    if (visibility & kSeesAll) return;
    MTF_UNROLL(Tiles::kThreadRows)
    for (int i = 0; i < Tiles::kThreadRows; ++i) {
      const Columns seen = columns_from(seen_ + tiles.row(i) * kWords, first) >> tiles.column(0);
      MTF_UNROLL(Tiles::kThreadColumns)
      for (int j = 0; j < Tiles::kThreadColumns; ++j) {
        if ((seen >> Tiles::column_step(j) & 1) == 0) logits[i][j] = -std::numeric_limits<C>::infinity();
      }
    }
  }

  /// True if the query sees only hidden entries.
  MTF_DEVICE bool sees_hidden(int visibility, int query) const {
    return visibility & kSeesHidden && sight(query).least > 0;
  }
  /// The bias that complete() adds to a logit.
  MTF_DEVICE C bias_of(int visibility, int query, int entry) const {
    if (!bias.any()) return 0;
    return bias(visibility & (kFarBefore | kFarBehind) ? bias.far_position(visibility)
                                                       : relative(query, entry));
  }

  MTF_DEVICE bool has_noise() const { return view.has(View::kNoise); }
  MTF_DEVICE C noise(int query, int entry) const {
    if constexpr (Tiles::kAllTerms) {
      if (noise_by_row_) {
        const int row = first_query_ + query, index = first_entry_ + entry;
        const bool exists = row < view.rows && index < view.memory;
        return exists ? view.template row<C>(place, View::kNoise, view.folded(row))[index] : C(0);
      }
    }
    return noise_[(kMemoryRows ? 0 : stage_ * kEntries) + entry];
  }

  MTF_DEVICE const Sight& sight(int query) const {
    return sights_[(kMemoryRows ? stage_ * kQueries : 0) + query];
  }
  MTF_DEVICE const MemoryIds& ids(int entry) const {
    return memory_[(kMemoryRows ? 0 : stage_ * kEntries) + entry];
  }

  /// Calls visit(i, j, query, entry) for the thread's elements of the columns from `first` on: row i and
  /// column j of its registers belong to this query and this entry of the tiles.
  template <class Visit>
  MTF_DEVICE static void for_each(const Tiles& tiles, int first, const Visit& visit) {
    MTF_UNROLL(Tiles::kThreadRows)
    for (int i = 0; i < Tiles::kThreadRows; ++i) {
      const int row = tiles.row(i);
      MTF_UNROLL(Tiles::kThreadColumns)
      for (int j = 0; j < Tiles::kThreadColumns; ++j) {
        const int column = first + tiles.column(j);
        visit(i, j, kMemoryRows ? column : row, kMemoryRows ? row : column);
      }
      load_later();
    }
  }

  /// The position of the entry minus that of the query.
  MTF_DEVICE int relative(int query, int entry) const { return ids(entry).position - sight(query).position; }

  const View& view;
  View::Place& place;  ///< offsets of the group
  using Bias = BiasByPosition<C, Tiles::kAllTerms>;
  Bias bias;

 private:
  static constexpr int kWords = Tiles::kColumns / 32;  ///< 32-bit words of visibility bits of a row
  static_assert(kWords == 1 || kWords == 2);
  /// A bit for each of the columns that are computed at a time.
  using Columns = std::conditional_t<(Tiles::kScoreColumns > 32), uint64_t, uint32_t>;

  /// Returns the bits of the columns from `first` on.
  MTF_DEVICE static Columns columns_from(const uint32_t* words, int first) {
    if constexpr (Tiles::kScoreColumns > 32) return uint64_t{words[1]} << 32 | words[0];
    const uint32_t word = kWords == 2 && first >= 32 ? words[kWords - 1] : words[0];
    return word >> first % 32 & (~0u >> (32 - Tiles::kScoreColumns % 32) % 32);
  }

  MTF_DEVICE void add_bias(const Tiles& tiles, int visibility, int first,
                           typename Tiles::Scores& logits) const {
    if (visibility & (kFarBefore | kFarBehind)) {
      const C far = bias(bias.far_position(visibility));
      for_each(tiles, first, [&](int i, int j, int, int) { logits[i][j] += far; });
    } else {
      for_each(tiles, first,
               [&](int i, int j, int query, int entry) { logits[i][j] += bias(relative(query, entry)); });
    }
  }

  /// The visibility bits of 32 columns of a row.
  MTF_DEVICE uint32_t seen_by_ids(int row, int first) const {
    uint32_t bits = 0;
    for (int bit = 0; bit < 32; ++bit) {
      const int query = kMemoryRows ? first + bit : row, entry = kMemoryRows ? row : first + bit;
      const bool seen = first_entry_ + entry < view.memory && sight(query).sees(ids(entry));
      bits |= static_cast<uint32_t>(seen) << bit;
    }
    return bits;
  }
  MTF_DEVICE uint32_t seen_by_index(int query, int first) const {
    const Sight& row = sight(query);
    if (row.least < 0) return 0;
    const int64_t end = row.end() < view.memory ? row.end() : view.memory;
    return bits_below(end - first_entry_ - first) & ~bits_below(int64_t{row.lower} - first_entry_ - first);
  }
  MTF_DEVICE static uint32_t bits_below(int64_t bit) {
    return bit <= 0 ? 0u : bit >= 32 ? ~0u : (1u << bit) - 1;
  }

  const Block& block_;
  Sight* sights_;      ///< [kStagesOfQueries][kQueries]
  MemoryIds* memory_;  ///< [kStagesOfMemory][kEntries]
  C* noise_;           ///< [kStagesOfMemory][kEntries], unless it differs between rows
  uint32_t* seen_;     ///< [kRows][kWords]
  bool noise_by_row_;
  uint32_t seen_by_warp_[kWords] = {};
  int first_query_ = 0, first_entry_ = 0, stage_ = 0;
};

/// Writes a thread's part of an output row, times `scale`. `to` is the row, which has `columns` columns;
/// `begin` is the first column of the block's part.
template <class Tiles>
MTF_DEVICE void save_row(const Tiles& tiles, const typename Tiles::C (&values)[Tiles::kThreadOutputs],
                         typename Tiles::C scale, typename Tiles::T* to, int begin, int columns,
                         bool aligned) {
  constexpr int kGroup = Tiles::kGroup;
  MTF_UNROLL(Tiles::kThreadOutputs)
  for (int j = 0; j < Tiles::kThreadOutputs; j += kGroup) {
    const int column = begin + tiles.output_column(j), rest = columns - column;
    Pack<typename Tiles::T, kGroup> pack;
    MTF_UNROLL(kGroup)
    for (int e = 0; e < kGroup; ++e) pack[e] = narrow<typename Tiles::T>(values[j + e] * scale);
    if (aligned && rest >= kGroup) {
      store(to + column, pack);
    } else {
      for (int e = 0; e < kGroup; ++e) {
        if (e < rest) to[column + e] = pack[e];
      }
    }
  }
}

}  // namespace mtf::cuda
