// The gradient of attention over tiles of logits, which are computed again. The same loop is launched twice,
// without atomic additions. A block has a tile of queries and sums
//
//   d q = d logits . k     over the memory,
//
// or, with kMemoryRows, a tile of the memory and sums, over the queries of all groups of its entry that see
// it,
//
//   d k = d logits^T . q,   d v = weights^T . d result.
//
// The tiles that a block loops over, and the terms of their queries or entries, have two stages in shared memory:
// those of the next tile are loaded while the current one is computed, with one barrier a tile. A warp computes
// Tiles::kScoreColumns columns of logits at a time, so that two sums and both kinds of row operands stay in
// registers, and skips those columns that none of its rows see.
#pragma once

#include <cstdint>

#include "engine/backend/cuda/attention/attention_gradient_operands.h"
#include "engine/backend/cuda/attention/attention_norm.h"
#include "engine/backend/cuda/attention/attention_terms.h"
#include "engine/backend/cuda/device/device_kernel.h"

namespace mtf::cuda {

/// What the gradient needs of a query besides its Sight.
template <class C>
struct QueryTerms {
  C log_sum;
  C delta;   ///< dot product of the result and its gradient
  C factor;  ///< factor of the weights; not 1 if a query sums all values
};

template <class Tiles, bool kMemoryRows>
struct AttentionBackward {
  using T = typename Tiles::T;
  using C = typename Tiles::C;
  using View = AttentionView;
  static constexpr int kMaxThreads = Tiles::kThreads;
  static constexpr int kStages = 2;

  View view;
  AttentionRowTerms<C> rows;
  const T* d_result;
  T *d_first, *d_second;  ///< gradient of q, or the gradients of k and v
  /// [groups][tiles][bucket_count] with the sums of each tile of queries; null: not wanted.
  C* d_bias = nullptr;
  int first_bucket = 0;                    ///< first bucket that this launch sums
  Divisor row_tiles, column_tiles, parts;  ///< parts: of the columns of the outputs

  AttentionBackward(const View& view, const AttentionRowTerms<C>& rows, const T* d_result, T* d_first,
                    T* d_second)
      : view(view), rows(rows), d_result(d_result), d_first(d_first), d_second(d_second) {
    const auto tiles = [](int64_t size, int64_t tile) { return (size + tile - 1) / tile; };
    const int64_t of_rows = tiles(kMemoryRows ? view.memory : view.rows, Tiles::kRows);
    const int64_t of_loop = tiles(kMemoryRows ? view.rows : view.memory, Tiles::kColumns);
    const int64_t width = kMemoryRows && view.value > view.key ? view.value : view.key;
    const int64_t of_columns = tiles(width, Tiles::kOutputColumns);
    row_tiles = Divisor(of_rows, view.groups.size() * of_rows);
    column_tiles = Divisor(of_loop, view.rows + view.memory);
    parts = Divisor(of_columns, view.groups.size() * of_rows * of_columns);
  }

  LaunchShape shape() const {
    const int64_t groups = kMemoryRows ? view.groups.size() / view.heads : view.groups.size();
    return {groups * row_tiles.value() * parts.value(), Tiles::kThreads, Parts(view, sums_buckets()).bytes};
  }

  using Terms = TileTerms<Tiles, kMemoryRows>;
  struct Parts {
    int64_t tiles;
    typename Terms::Parts terms;
    int64_t log_sums, deltas, list, counts, d_bias, bias, bytes;

    MTF_HOST_DEVICE Parts(const View& view, bool has_d_bias) : Parts(MemoryParts(), view, has_d_bias) {}

   private:
    MTF_HOST_DEVICE Parts(MemoryParts parts, const View& view, bool has_d_bias)
        : tiles(parts.take<unsigned char>(Tiles::shared_bytes(2, 2, kStages))),
          terms(parts),
          log_sums(parts.take<C>(Terms::kQueries * Terms::kStagesOfQueries)),
          deltas(parts.take<C>(Terms::kQueries * Terms::kStagesOfQueries)),
          list(parts.take<int>(Tiles::kThreads)),
          counts(parts.take<int>(Tiles::kThreads / kWarp)),
          d_bias(parts.take<C>(has_d_bias ? kBucketsAtOnce * Tiles::kThreads : 0)),
          bias(parts.take<C>(Terms::Bias::shared_elements(view))),
          bytes(parts.bytes()) {}
  };

  /// The number of buckets whose sums a thread keeps.
  static constexpr int kBucketsAtOnce = 32;

  MTF_DEVICE void operator()(const Block& block) const {
    const Parts parts_of_block(view, sums_buckets());
    const auto [tile_of_group, part_index] = parts(block.index());
    const auto [row_group, row_tile_index] = row_tiles(tile_of_group);
    const int part = static_cast<int>(part_index);
    // With masks by index, the last queries and the first entries have the most work, so they come first.
    const int row_tile =
        static_cast<int>(kMemoryRows ? row_tile_index : row_tiles.value() - 1 - row_tile_index);
    const int first_row = row_tile * Tiles::kRows;

    Walk walk(*this, block, parts_of_block, first_row);
    Tiles& tiles = walk.tiles;
    typename Tiles::Output first_sum, second_sum;
    MTF_UNROLL(Tiles::kThreadRows)
    for (int i = 0; i < Tiles::kThreadRows; ++i) {
      MTF_UNROLL(Tiles::kThreadOutputs)
      for (int j = 0; j < Tiles::kThreadOutputs; ++j) first_sum[i][j] = second_sum[i][j] = 0;
    }
    C* sums_of_buckets = block.shared<C>(parts_of_block.d_bias);
    if (sums_buckets()) {
      for (int i = 0; i < kBucketsAtOnce; ++i) sums_of_buckets[i * Tiles::kThreads + block.thread()] = 0;
    }

    const int groups = kMemoryRows ? view.heads : 1;
    for (int head = 0; head < groups; ++head) {
      const int64_t group = row_group * groups + head;
      walk.begin_group(group, head == 0);
      for (int window = 0; window < column_tiles.value(); window += Tiles::kThreads) {
        const int count = walk.list(group, row_tile, window);
        if (count > 0) walk.begin_tile(group, 0);
        for (int n = 0; n < count; ++n) {
          walk.ready();
          if (n + 1 < count) walk.begin_tile(group, n + 1);
          const int visibility = walk.select(n);
          const auto first = walk.first(n), second = walk.second(n);
          MTF_UNROLL(Tiles::kColumns / Tiles::kScoreColumns)
          for (int column = 0; column < Tiles::kColumns; column += Tiles::kScoreColumns) {
            if (!Tiles::kHasBarriers && !walk.terms.sees_any(visibility, column)) continue;
            typename Tiles::Scores weights = {}, d_logits = {};
            tiles.add_transposed_product(weights, walk.row_operands[0], first, column);
            tiles.add_transposed_product(d_logits, walk.row_operands[1], second, column);
            walk.terms.complete(tiles, visibility, column, weights, view.has_soft_cap());
            if (view.has_soft_cap()) {
              make_capped_gradients(walk, n, visibility, column, weights, d_logits);
            } else {
              make_gradients(walk, n, visibility, column, weights, d_logits);
            }
            if (sums_buckets()) add_to_buckets(block, walk, visibility, column, d_logits, sums_of_buckets);
            if (!kMemoryRows && view.has_soft_cap()) multiply_by(weights, d_logits);
            if constexpr (kMemoryRows)
              tiles.add_product(second_sum, weights, second, column, part * Tiles::kOutputColumns);
            tiles.add_product(first_sum, d_logits, first, column, part * Tiles::kOutputColumns);
          }
        }
      }
    }
    save(tiles, walk.terms.place, first_row, part, first_sum, second_sum);
    if (sums_buckets() && part == 0)
      save_buckets(block, sums_of_buckets,
                   d_bias + (row_group * row_tiles.value() + row_tile) * view.bucket_count);
  }

 private:
  MTF_HOST_DEVICE bool sums_buckets() const { return !kMemoryRows && d_bias != nullptr; }

  /// A block's loop over the tiles.
  struct Walk {
    const AttentionBackward& kernel;
    const View& view;
    const Block& block;
    Terms terms;
    Tiles tiles;
    C *log_sums, *deltas;  ///< [kStagesOfQueries][kQueries], see QueryTerms
    int *list_of_tiles, *counts;
    typename Tiles::RowOperand row_operands[2];
    int first_row;
    bool is_held = !Tiles::kHoldsRows;

    MTF_DEVICE Walk(const AttentionBackward& kernel, const Block& block, const Parts& parts, int first_row)
        : kernel(kernel),
          view(kernel.view),
          block(block),
          terms(block, kernel.view, parts.terms, parts.bias),
          tiles(block, kernel.view, block.shared<unsigned char>(parts.tiles)),
          log_sums(block.shared<C>(parts.log_sums)),
          deltas(block.shared<C>(parts.deltas)),
          list_of_tiles(block.shared<int>(parts.list)),
          counts(block.shared<int>(parts.counts)),
          row_operands{tiles.row_operand(2, kStages, 0), tiles.row_operand(2, kStages, 1)},
          first_row(first_row) {}

    MTF_DEVICE TileRows<T> tile_of_d_result(int begin, int count) const {
      TileRows<T> result = view.template tile_of_queries<T>(terms.place, View::kResult, begin, count);
      result.data = kernel.d_result + terms.place[View::kResult];
      return result;
    }

    /// Groups of the same entry have the same row operands, which are loaded for the first.
    MTF_DEVICE void begin_group(int64_t group, bool is_first) {
      constexpr int kCount = Tiles::kRows;
      terms.begin_group(group);
      if constexpr (kMemoryRows) {
        terms.load_memory(first_row);
        if (!is_first) return;
        tiles.begin(row_operands[0],
                    view.template tile_of_memory<T>(terms.place, View::kK, first_row, kCount));
        tiles.begin(row_operands[1],
                    view.template tile_of_memory<T>(terms.place, View::kV, first_row, kCount));
      } else {
        load_queries(group, first_row, 0);
        tiles.begin(row_operands[0],
                    view.template tile_of_queries<T>(terms.place, View::kQ, first_row, kCount));
        tiles.begin(row_operands[1], tile_of_d_result(first_row, kCount));
      }
    }

    /// The column operands of the listed tile n: queries and gradients of results, or keys and values.
    MTF_DEVICE typename Tiles::ColumnOperand first(int n) const { return tiles.column_operand(n % 2 * 2); }
    MTF_DEVICE typename Tiles::ColumnOperand second(int n) const {
      return tiles.column_operand(n % 2 * 2 + 1);
    }
    MTF_DEVICE int first_column(int n) const { return list_of_tiles[n] / kVisibilities * Tiles::kColumns; }

    /// Begins to load the listed tile n.
    MTF_DEVICE void begin_tile(int64_t group, int n) {
      constexpr int kCount = Tiles::kColumns;
      const int begin = first_column(n);
      if constexpr (kMemoryRows) {
        tiles.begin(first(n), view.template tile_of_queries<T>(terms.place, View::kQ, begin, kCount));
        tiles.begin(second(n), tile_of_d_result(begin, kCount));
        load_queries(group, begin, n % 2);
      } else {
        tiles.begin(first(n), view.template tile_of_memory<T>(terms.place, View::kK, begin, kCount));
        tiles.begin(second(n), view.template tile_of_memory<T>(terms.place, View::kV, begin, kCount));
        terms.load_memory(begin, n % 2);
      }
    }

    /// Waits for the tile that was begun last, and for all threads to have finished the one before.
    MTF_DEVICE void ready() {
      tiles.ready();
      if (is_held) return;
      tiles.hold(row_operands[0]);
      tiles.hold(row_operands[1]);
      block.sync();
      is_held = true;
    }

    /// Turns to the listed tile n and returns its visibility.
    MTF_DEVICE int select(int n) {
      const int visibility = list_of_tiles[n] % kVisibilities, column = first_column(n);
      terms.select(kMemoryRows ? column : first_row, kMemoryRows ? first_row : column, n % 2);
      terms.find_seen(visibility);
      return visibility;
    }

    MTF_DEVICE void load_queries(int64_t group, int begin, int stage) {
      const int* least = kernel.rows.least + group * view.rows;
      terms.load_sights(least, begin, stage);
      for (int i = block.thread(); i < Terms::kQueries; i += block.threads()) {
        const int row = begin + i, at = stage * Terms::kQueries + i;
        const bool exists = row < view.rows;
        log_sums[at] = exists ? *view.template row<C>(terms.place, View::kLogSum, view.folded(row)) : C(0);
        deltas[at] = exists ? kernel.rows.deltas[group * view.rows + row] : C(0);
      }
    }

    MTF_DEVICE QueryTerms<C> query_terms(int visibility, int query, C log_sum, C delta) const {
      const bool sums_all = terms.sees_hidden(visibility, query) && !view.has_extra_logit();
      return {log_sum, delta, sums_all ? Math::exp(log_sum) : C(1)};
    }

    /// Calls visit(i, j, query, entry, QueryTerms) for the thread's elements of the columns from `column` on.
    template <class Visit>
    MTF_DEVICE void for_each(int n, int visibility, int column, const Visit& visit) const {
      if constexpr (kMemoryRows) {
        constexpr int kGroup = Tiles::kGroup;
        MTF_UNROLL(Tiles::kThreadColumns / kGroup)
        for (int j = 0; j < Tiles::kThreadColumns; j += kGroup) {
          const int query = column + tiles.column(j), at = n % 2 * Terms::kQueries + query;
          const Pack<C, kGroup> tops = load<kGroup>(log_sums + at), products = load<kGroup>(deltas + at);
          MTF_UNROLL(kGroup)
          for (int e = 0; e < kGroup; ++e) {
            const QueryTerms<C> of_query = query_terms(visibility, query + e, tops[e], products[e]);
            MTF_UNROLL(Tiles::kThreadRows)
            for (int i = 0; i < Tiles::kThreadRows; ++i) visit(i, j + e, query + e, tiles.row(i), of_query);
          }
        }
      } else {
        MTF_UNROLL(Tiles::kThreadRows)
        for (int i = 0; i < Tiles::kThreadRows; ++i) {
          const int query = tiles.row(i);
          const QueryTerms<C> of_query = query_terms(visibility, query, log_sums[query], deltas[query]);
          MTF_UNROLL(Tiles::kThreadColumns)
          for (int j = 0; j < Tiles::kThreadColumns; ++j)
            visit(i, j, query, column + tiles.column(j), of_query);
        }
      }
    }

    /// Lists the tiles from `window` on that the tile of rows sees or is seen by; returns their number.
    MTF_DEVICE int list(int64_t group, int row_tile, int window) {
      const auto end = static_cast<int>(kernel.column_tiles.value());
      const auto tiles_of = [](int64_t size) { return (size + View::kTile - 1) / View::kTile; };
      const SightRanges* of_queries = kernel.rows.sight_ranges + group * tiles_of(view.rows);
      const MemoryRanges* of_memory = kernel.rows.memory_ranges;
      if (of_memory != nullptr) of_memory += group * tiles_of(view.memory);
      const auto visibility_of = [&](int tile) {
        constexpr int kQueries = Terms::kQueries, kEntries = Terms::kEntries;
        const int query = (kMemoryRows ? tile : row_tile) * kQueries;
        const int entry = (kMemoryRows ? row_tile : tile) * kEntries;
        const int end_query = query + kQueries < view.rows ? query + kQueries : view.rows;
        const int end_entry = entry + kEntries < view.memory ? entry + kEntries : view.memory;
        const bool whole = end_query - query == kQueries && end_entry - entry == kEntries;
        return visibility(view, joined_ranges(of_queries, query, end_query),
                          of_memory != nullptr ? joined_ranges(of_memory, entry, end_entry)
                                               : MemoryRanges::of_indices(entry, end_entry),
                          whole);
      };
      return list_tiles(block, window, end, visibility_of, list_of_tiles, counts);
    }
  };

  /// Turns logits into weights (times the noise) and gradients of the weights into gradients of the logits.
  MTF_DEVICE void make_gradients(const Walk& walk, int n, int visibility, int column,
                                 typename Tiles::Scores& logits, typename Tiles::Scores& d_weights) const {
    const bool has_noise = walk.terms.has_noise();
    if (visibility & kSeesAll && !has_noise) {
      walk.for_each(n, visibility, column, [&](int i, int j, int, int, const QueryTerms<C>& query) {
        logits[i][j] = Tiles::weight(logits[i][j], query.log_sum);
        d_weights[i][j] = logits[i][j] * (d_weights[i][j] - query.delta);
      });
      return;
    }
    walk.for_each(n, visibility, column, [&](int i, int j, int row, int entry, const QueryTerms<C>& query) {
      const bool seen = logits[i][j] != -std::numeric_limits<C>::infinity();
      const C multiplier = has_noise ? query.factor * walk.terms.noise(row, entry) : query.factor;
      const C weight = Tiles::weight(logits[i][j], query.log_sum);
      d_weights[i][j] = seen ? weight * (d_weights[i][j] * multiplier - query.delta) : C(0);
      logits[i][j] = seen ? weight * multiplier : C(0);
    });
  }

  /// The same under a soft cap. The gradients of the products q.k are those of the logits times slopes of the cap, which
  /// follow from the logits. With kMemoryRows `d_weights` becomes the former; without, the buckets need the latter:
  /// `logits`, whose weights are not wanted then, becomes the slopes.
  MTF_DEVICE void make_capped_gradients(const Walk& walk, int n, int visibility, int column,
                                        typename Tiles::Scores& logits,
                                        typename Tiles::Scores& d_weights) const {
    const SoftCap<C> cap(view);
    const bool has_noise = walk.terms.has_noise();
    walk.for_each(n, visibility, column, [&](int i, int j, int row, int entry, const QueryTerms<C>& query) {
      const C logit = logits[i][j];
      const bool seen = logit != -std::numeric_limits<C>::infinity();
      const C multiplier = has_noise ? query.factor * walk.terms.noise(row, entry) : query.factor;
      const C slope = seen ? cap.slope(logit - walk.terms.bias_of(visibility, row, entry)) : C(0);
      const C weight = Tiles::weight(walk.terms.sees_hidden(visibility, row) ? C(0) : logit, query.log_sum);
      const C d_logit = seen ? weight * (d_weights[i][j] * multiplier - query.delta) : C(0);
      d_weights[i][j] = kMemoryRows ? d_logit * slope : d_logit;
      logits[i][j] = !kMemoryRows ? slope : seen ? weight * multiplier : C(0);
    });
  }

  MTF_DEVICE static void multiply_by(const typename Tiles::Scores& slopes, typename Tiles::Scores& d_logits) {
    MTF_UNROLL(Tiles::kThreadRows)
    for (int i = 0; i < Tiles::kThreadRows; ++i) {
      MTF_UNROLL(Tiles::kThreadColumns)
      for (int j = 0; j < Tiles::kThreadColumns; ++j) d_logits[i][j] *= slopes[i][j];
    }
  }

  MTF_DEVICE void add_to_buckets(const Block& block, const Walk& walk, int visibility, int column,
                                 const typename Tiles::Scores& d_logits, C* sums) const {
    const auto add = [&](int relative, C value) {
      const int bucket = walk.terms.bias.bucket(relative) - first_bucket;
      if (bucket >= 0 && bucket < kBucketsAtOnce) sums[bucket * Tiles::kThreads + block.thread()] += value;
    };
    if (visibility & (kFarBefore | kFarBehind)) {
      C sum = 0;
      Terms::for_each(walk.tiles, column, [&](int i, int j, int, int) { sum += d_logits[i][j]; });
      add(walk.terms.bias.far_position(visibility), sum);
    } else {
      Terms::for_each(walk.tiles, column, [&](int i, int j, int query, int entry) {
        add(walk.terms.relative(query, entry), d_logits[i][j]);
      });
    }
  }

  MTF_DEVICE void save_buckets(const Block& block, const C* sums, C* to) const {
    block.sync();
    const int bucket = block.thread();
    if (bucket >= kBucketsAtOnce || first_bucket + bucket >= view.bucket_count) return;
    C sum = 0;
    // Neighbouring threads begin at different elements, so that they read different banks.
    for (int i = 0; i < Tiles::kThreads; ++i)
      sum += sums[bucket * Tiles::kThreads + (i + bucket) % Tiles::kThreads];
    to[first_bucket + bucket] = sum;
  }

  MTF_DEVICE void save(const Tiles& tiles, const View::Place& place, int first_row, int part,
                       const typename Tiles::Output& first_sum,
                       const typename Tiles::Output& second_sum) const {
    const int begin = part * Tiles::kOutputColumns;
    MTF_UNROLL(Tiles::kThreadRows)
    for (int i = 0; i < Tiles::kThreadRows; ++i) {
      const int row = first_row + tiles.row(i);
      if (row >= (kMemoryRows ? view.memory : view.rows)) continue;
      if constexpr (kMemoryRows) {
        save_row(tiles, first_sum[i], C(1), d_first + place[View::kK] + row * view.key_stride, begin,
                 view.key, view.aligned);
        save_row(tiles, second_sum[i], C(1), d_second + place[View::kV] + row * view.value_stride, begin,
                 view.value, view.aligned);
      } else {
        save_row(tiles, first_sum[i], C(1), d_first + view.offset(place, View::kQ, row), begin, view.key,
                 view.aligned);
      }
    }
  }
};

/// Launches both loops. Returns the number of tiles of queries of a group, for which d_bias has sums.
template <class Tiles>
int64_t launch_backward(const Launcher& launch, const AttentionView& view,
                        const AttentionRowTerms<typename Tiles::C>& rows,
                        const AttentionGradients<typename Tiles::T>& gradients) {
  AttentionBackward<Tiles, false> of_queries(view, rows, gradients.d_result, gradients.d_q, nullptr);
  of_queries.d_bias = gradients.d_bias;
  do {
    launch(of_queries.shape(), of_queries);
    of_queries.first_bucket += of_queries.kBucketsAtOnce;
  } while (gradients.d_bias != nullptr && of_queries.first_bucket < view.bucket_count);
  const AttentionBackward<Tiles, true> of_memory(view, rows, gradients.d_result, gradients.d_k,
                                                 gradients.d_v);
  launch(of_memory.shape(), of_memory);
  return of_queries.row_tiles.value();
}

}  // namespace mtf::cuda
