// Attention over tiles of logits with an online softmax (Milakov, Gimelshein, Online normalizer calculation
// for softmax, 2018; Dao, FlashAttention-2, 2023). A block has a tile of queries and loops over the tiles of
// the memory that they see. Maximum, sum and result so far are in registers.
//
// Where queries are held in registers, keys and values have two stages in shared memory: those of the next tile
// are loaded during the whole of the current one, with one barrier a tile. Otherwise values are loaded during the
// product of queries and keys, and the next keys during the softmax and the product with the values.
#pragma once

#include <cstdint>

#include "engine/backend/cuda/attention/attention_norm.h"
#include "engine/backend/cuda/attention/attention_terms.h"
#include "engine/backend/cuda/device/device_kernel.h"

namespace mtf::cuda {

template <class Tiles>
struct AttentionForward {
  using T = typename Tiles::T;
  using C = typename Tiles::C;
  using View = AttentionView;
  static constexpr int kMaxThreads = Tiles::kThreads;
  static constexpr int kStages = Tiles::kHoldsRows ? 2 : 1;

  View view;
  const MemoryRanges* ranges;  ///< by group and tile of View::kTile entries; null if the memory has no ids
  const int* least;            ///< [groups][rows], Sight::least; null if the memory has no ids
  T* result;
  C* log_sums;
  Divisor row_tiles, range_tiles, parts;  ///< parts: of the result's columns

  AttentionForward(const View& view, T* result, C* log_sums)
      : view(view), ranges(nullptr), least(nullptr), result(result), log_sums(log_sums) {
    const auto tiles = [](int64_t size, int64_t tile) { return (size + tile - 1) / tile; };
    const int64_t rows = tiles(view.rows, Tiles::kRows), columns = tiles(view.value, Tiles::kOutputColumns);
    parts = Divisor(columns, view.groups.size() * rows * columns);
    row_tiles = Divisor(rows, view.groups.size() * rows);
    range_tiles = Divisor(tiles(view.memory, View::kTile), view.memory);
  }

  LaunchShape shape() const {
    return {view.groups.size() * row_tiles.value() * parts.value(), Tiles::kThreads, Parts(view).bytes};
  }

  using Terms = TileTerms<Tiles, false>;
  struct Parts {
    int64_t tiles;
    typename Terms::Parts terms;
    int64_t list, counts, ranges, sums, bias, bytes;

    MTF_HOST_DEVICE explicit Parts(const View& view) : Parts(MemoryParts(), view) {}

   private:
    MTF_HOST_DEVICE Parts(MemoryParts parts, const View& view)
        : tiles(parts.take<unsigned char>(Tiles::shared_bytes(1, 2, kStages))),
          terms(parts),
          list(parts.take<int>(Tiles::kThreads)),
          counts(parts.take<int>(Tiles::kThreads / kWarp)),
          ranges(parts.take<SightRanges>(Tiles::kThreads / kWarp)),
          sums(parts.take<C>(2 * Tiles::kRows)),
          bias(parts.take<C>(Terms::Bias::shared_elements(view))),
          bytes(parts.bytes()) {}
  };

  /// A thread's state of its rows.
  struct Rows {
    C top[Tiles::kThreadRows], sum[Tiles::kThreadRows];  ///< sums of this lane only
    typename Tiles::Output values;
  };

  MTF_DEVICE void operator()(const Block& block) const {
    const Parts parts_of_block(view);
    const auto [tile_of_group, part_index] = parts(block.index());
    const auto [group, tile_from_end] = row_tiles(tile_of_group);
    // With masks by index, the last tiles have the most work, so they come first.
    const int row_tile = static_cast<int>(row_tiles.value() - 1 - tile_from_end),
              first_row = row_tile * Tiles::kRows;
    const int part = static_cast<int>(part_index);
    const int* least_of_group = least != nullptr ? least + group * view.rows : nullptr;
    Terms terms(block, view, parts_of_block.terms, parts_of_block.bias);
    terms.begin_group(group);
    const View::Place& place = terms.place;
    SightRanges* sights = block.shared<SightRanges>(parts_of_block.ranges);
    join_warps<6>(block, reduce_warp<6>(block, terms.load_sights(least_of_group, first_row)), sights);

    Tiles tiles(block, view, block.shared<unsigned char>(parts_of_block.tiles));
    auto q = tiles.row_operand(2, kStages, 0);
    bool is_held = !Tiles::kHoldsRows;

    Rows rows;
    MTF_UNROLL(Tiles::kThreadRows)
    for (int i = 0; i < Tiles::kThreadRows; ++i) {
      rows.top[i] = -std::numeric_limits<C>::infinity();
      rows.sum[i] = 0;
      MTF_UNROLL(Tiles::kThreadOutputs)
      for (int j = 0; j < Tiles::kThreadOutputs; ++j) rows.values[i][j] = 0;
    }

    static_assert(View::kTile % Tiles::kColumns == 0);
    const auto visibility_of = [&](int tile) {
      const int begin = tile * Tiles::kColumns, end = begin + Tiles::kColumns;
      return visibility(view, *sights,
                        ranges != nullptr
                            ? ranges[group * range_tiles.value() + begin / View::kTile]
                            : MemoryRanges::of_indices(begin, end < view.memory ? end : view.memory),
                        end <= view.memory);
    };
    int* list = block.shared<int>(parts_of_block.list);
    const IndexLimits all(view, *sights);
    const int end_tile = (all.last + Tiles::kColumns - 1) / Tiles::kColumns;
    const auto stage = [](int n) { return kStages == 2 ? n % 2 : 0; };
    const auto keys = [&](int n) { return tiles.column_operand(stage(n) * 2); };
    const auto values = [&](int n) { return tiles.column_operand(stage(n) * 2 + 1); };
    const auto first_of = [&](int n) { return list[n] / kVisibilities * Tiles::kColumns; };
    const auto begin_keys = [&](int n) {
      tiles.begin(keys(n), view.tile_of_memory<T>(place, View::kK, first_of(n), Tiles::kColumns));
      terms.load_memory(first_of(n), n % 2);
    };
    const auto begin_values = [&](int n) {
      const int first = first_of(n);
      TileRows<T> visible = view.tile_of_memory<T>(place, View::kV, first, Tiles::kColumns);
      const IndexLimits limits(view, *sights);
      visible.first = limits.first - first > 0 ? limits.first - first : 0;
      visible.last = limits.last - first < visible.last ? limits.last - first : visible.last;
      tiles.begin(values(n), visible);
    };
    tiles.begin(q, view.tile_of_queries<T>(place, View::kQ, first_row, Tiles::kRows));
    for (int window = all.first / Tiles::kColumns; window < end_tile; window += Tiles::kThreads) {
      const int count =
          list_tiles(block, window, end_tile, visibility_of, list, block.shared<int>(parts_of_block.counts));
      if (count > 0) begin_keys(0);
      if (count > 0 && kStages == 2) begin_values(0);
      for (int n = 0; n < count; ++n) {
        const int visibility = list[n] % kVisibilities;
        tiles.ready();
        if (!is_held) {
          tiles.hold(q);
          block.sync();
          is_held = true;
        }
        if constexpr (kStages == 1) {
          begin_values(n);
        } else if (n + 1 < count) {
          begin_keys(n + 1);
          begin_values(n + 1);
        }
        terms.select(first_row, first_of(n), n % 2);
        terms.find_seen(visibility);
        const bool sees = Tiles::kHasBarriers || terms.sees_any(visibility, 0);
        typename Tiles::Scores scores = {};
        if (sees) tiles.add_transposed_product(scores, q, keys(n), 0);
        if constexpr (kStages == 1) {
          tiles.ready();
          if (n + 1 < count) begin_keys(n + 1);
        }
        if (!sees) continue;
        terms.complete(tiles, visibility, 0, scores);
        make_weights(block, tiles, rows, scores);
        if (terms.has_noise()) {
          Terms::for_each(tiles, 0, [&](int i, int j, int query, int entry) {
            scores[i][j] *= terms.noise(query, entry);
          });
        }
        tiles.add_product(rows.values, scores, values(n), 0, part * Tiles::kOutputColumns);
      }
    }
    save(block, tiles, terms, rows, block.shared<C>(parts_of_block.sums), first_row, part);
  }

 private:
  /// Turns logits into exp(logit - the row's maximum so far) and rescales earlier sums to the new maximum.
  MTF_DEVICE void make_weights(const Block& block, const Tiles& tiles, Rows& rows,
                               typename Tiles::Scores& scores) const {
    C scales[Tiles::kThreadRows];
    bool grown = false;
    MTF_UNROLL(Tiles::kThreadRows)
    for (int i = 0; i < Tiles::kThreadRows; ++i) {
      C top = rows.top[i];
      MTF_UNROLL(Tiles::kThreadColumns)
      for (int j = 0; j < Tiles::kThreadColumns; ++j) top = larger(top, scores[i][j]);
      MTF_UNROLL(Tiles::kRowLanes)
      for (int mask = 1; mask < Tiles::kRowLanes; mask *= 2) top = larger(top, block.shuffle_xor(top, mask));
      grown |= top > rows.top[i];
      const C base = top == -std::numeric_limits<C>::infinity() ? C(0) : top;
      scales[i] = exponential(rows.top[i] - base);
      rows.top[i] = top;
      C sum = 0;
      MTF_UNROLL(Tiles::kThreadColumns)
      for (int j = 0; j < Tiles::kThreadColumns; ++j) {
        scores[i][j] = tiles.weight(scores[i][j], base);
        sum += scores[i][j];
      }
      rows.sum[i] = rows.sum[i] * scales[i] + sum;
    }
    if (block.ballot(grown) == 0) return;
    MTF_UNROLL(Tiles::kThreadRows)
    for (int i = 0; i < Tiles::kThreadRows; ++i) {
      MTF_UNROLL(Tiles::kThreadOutputs)
      for (int j = 0; j < Tiles::kThreadOutputs; ++j) rows.values[i][j] *= scales[i];
    }
  }

  MTF_DEVICE void save(const Block& block, const Tiles& tiles, const Terms& terms, const Rows& rows, C* sums,
                       int first_row, int part) const {
    MTF_UNROLL(Tiles::kThreadRows)
    for (int i = 0; i < Tiles::kThreadRows; ++i) {
      C sum = rows.sum[i];
      MTF_UNROLL(Tiles::kRowLanes)
      for (int mask = 1; mask < Tiles::kRowLanes; mask *= 2) sum += block.shuffle_xor(sum, mask);
      if (block.lane() % Tiles::kRowLanes == 0) {
        sums[tiles.row(i) * 2] = rows.top[i];
        sums[tiles.row(i) * 2 + 1] = sum;
      }
    }
    block.sync();
    for (int i = block.thread(); i < Tiles::kRows && first_row + i < view.rows; i += block.threads()) {
      const AttentionNorm<C> norm(view, sums[i * 2], sums[i * 2 + 1], terms.sight(i).least);
      sums[i * 2] = norm.scale;
      if (part == 0) log_sums[view.offset(terms.place, View::kLogSum, first_row + i)] = norm.log_sum;
    }
    block.sync();
    MTF_UNROLL(Tiles::kThreadRows)
    for (int i = 0; i < Tiles::kThreadRows; ++i) {
      const int row = first_row + tiles.row(i);
      if (row >= view.rows) continue;
      save_row(tiles, rows.values[i], sums[tiles.row(i) * 2],
               result + view.offset(terms.place, View::kResult, row), part * Tiles::kOutputColumns,
               view.value, view.aligned);
    }
  }
};

/// Launches AttentionForward with these members.
template <class Tiles>
void launch_forward(const Launcher& launch, const AttentionView& view, const MemoryRanges* ranges,
                    const int* least, typename Tiles::T* result, typename Tiles::C* log_sums) {
  AttentionForward<Tiles> forward(view, result, log_sums);
  forward.ranges = ranges;
  forward.least = least;
  launch(forward.shape(), forward);
}

}  // namespace mtf::cuda
