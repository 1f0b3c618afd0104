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
// The operand that a tile needs last is loaded for the next tile, into a second buffer, while the current
// tile is computed.
#pragma once

#include <cstdint>
#include <utility>

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

/// Results of the first launch of the gradient (attention_rows.h), by group, then row or tile.
template <class C>
struct AttentionRowTerms {
  const C* deltas;
  const int* least;                   ///< Sight::least
  const SightRanges* sight_ranges;    ///< by tile of AttentionView::kTile rows
  const MemoryRanges* memory_ranges;  ///< by tile of as many entries; null if the memory has no ids
};

/// The gradients of the operands and of the result.
template <class T>
struct AttentionGradients {
  const T* d_result;
  T *d_q, *d_k, *d_v;
  Computed<T>* d_bias;  ///< as in AttentionBackward
};

template <class Tiles, bool kMemoryRows>
struct AttentionBackward {
  using T = typename Tiles::T;
  using C = typename Tiles::C;
  using View = AttentionView;
  static constexpr int kMaxThreads = Tiles::kThreads;
  static constexpr int kTile = View::kTile;
  static_assert(Tiles::kRows == kTile && Tiles::kColumns == kTile);

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
    const int64_t of_queries = tiles(view.rows, kTile), of_memory = tiles(view.memory, kTile);
    const int64_t width = kMemoryRows && view.value > view.key ? view.value : view.key;
    const int64_t of_columns = tiles(width, Tiles::kOutputColumns);
    row_tiles = Divisor(kMemoryRows ? of_memory : of_queries, view.groups.size() * (of_queries + of_memory));
    column_tiles = Divisor(kMemoryRows ? of_queries : of_memory, view.rows + view.memory);
    parts = Divisor(of_columns, view.groups.size() * (of_queries + of_memory) * of_columns);
  }

  LaunchShape shape() const {
    const int64_t groups = kMemoryRows ? view.groups.size() / view.heads : view.groups.size();
    return {groups * row_tiles.value() * parts.value(), Tiles::kThreads, Parts(view, sums_buckets()).bytes};
  }

  using Terms = TileTerms<Tiles, kMemoryRows>;
  struct Parts {
    int64_t tiles;
    typename Terms::Parts terms;
    int64_t queries, list, counts, d_bias, bias, bytes;

    MTF_HOST_DEVICE Parts(const View& view, bool has_d_bias) : Parts(MemoryParts(), view, has_d_bias) {}

   private:
    MTF_HOST_DEVICE Parts(MemoryParts parts, const View& view, bool has_d_bias)
        : tiles(parts.take<unsigned char>(Tiles::shared_bytes(2, 3))),
          terms(parts),
          queries(parts.take<QueryTerms<C>>(kTile)),
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
    const int first_row = row_tile * kTile;

    Walk walk(*this, block, parts_of_block);
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
      walk.begin_group(group, first_row);
      for (int window = 0; window < column_tiles.value(); window += Tiles::kThreads) {
        const int count = walk.list(group, row_tile, window);
        if (count == 0) continue;
        walk.load_first(walk.tile(0));
        walk.load_second(walk.tile(0), group);
        for (int n = 0; n < count; ++n) {
          const int visibility = walk.visibility(n);
          tiles.ready();
          std::swap(walk.first, walk.next_first);
          if (n + 1 < count) walk.load_first(walk.tile(n + 1));
          walk.terms.find_seen(visibility);

          typename Tiles::Scores weights = {}, d_logits = {};
          tiles.add_transposed_product(weights, walk.row_operands[0], walk.first);
          tiles.add_transposed_product(d_logits, walk.row_operands[1], walk.second);
          if (!(visibility & kSeesAll)) block.sync();
          walk.terms.complete(tiles, visibility, weights);
          make_gradients(walk, visibility, weights, d_logits);
          if (sums_buckets()) add_to_buckets(block, walk, visibility, d_logits, sums_of_buckets);
          if constexpr (kMemoryRows)
            tiles.add_product(second_sum, weights, walk.second, part * Tiles::kOutputColumns);
          block.sync();
          if (n + 1 < count) walk.load_second(walk.tile(n + 1), group);
          tiles.add_product(first_sum, d_logits, walk.first, part * Tiles::kOutputColumns);
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
    QueryTerms<C>* queries;
    int *list_of_tiles, *counts;
    typename Tiles::RowOperand row_operands[2];
    typename Tiles::ColumnOperand first, next_first, second;
    int first_row = 0;

    MTF_DEVICE Walk(const AttentionBackward& kernel, const Block& block, const Parts& parts)
        : kernel(kernel),
          view(kernel.view),
          block(block),
          terms(block, kernel.view, parts.terms, parts.bias),
          tiles(block, kernel.view, block.shared<unsigned char>(parts.tiles)),
          queries(block.shared<QueryTerms<C>>(parts.queries)),
          list_of_tiles(block.shared<int>(parts.list)),
          counts(block.shared<int>(parts.counts)),
          row_operands{tiles.row_operand(0), tiles.row_operand(1)},
          first(tiles.column_operand(2, 0)),
          next_first(tiles.column_operand(2, 1)),
          second(tiles.column_operand(2, 2)) {}

    MTF_DEVICE TileRows<T> tile_of_d_result(int tile) const {
      TileRows<T> result = view.template tile_of_queries<T>(terms.place, View::kResult, tile * kTile, kTile);
      result.data = kernel.d_result + terms.place[View::kResult];
      return result;
    }

    MTF_DEVICE void begin_group(int64_t group, int begin) {
      first_row = begin;
      terms.begin_group(group);
      if constexpr (kMemoryRows) {
        terms.load_memory(begin);
        tiles.begin(row_operands[0], view.template tile_of_memory<T>(terms.place, View::kK, begin, kTile));
        tiles.begin(row_operands[1], view.template tile_of_memory<T>(terms.place, View::kV, begin, kTile));
      } else {
        load_queries(begin / kTile, group);
        tiles.begin(row_operands[0], view.template tile_of_queries<T>(terms.place, View::kQ, begin, kTile));
        tiles.begin(row_operands[1], tile_of_d_result(begin / kTile));
      }
    }

    /// Loads a tile into next_first.
    MTF_DEVICE void load_first(int tile) {
      tiles.begin(next_first,
                  kMemoryRows ? view.template tile_of_queries<T>(terms.place, View::kQ, tile * kTile, kTile)
                              : view.template tile_of_memory<T>(terms.place, View::kK, tile * kTile, kTile));
    }
    /// Loads a tile into `second`, and the terms of its rows.
    MTF_DEVICE void load_second(int tile, int64_t group) {
      if constexpr (kMemoryRows) {
        tiles.begin(second, tile_of_d_result(tile));
        load_queries(tile, group);
      } else {
        tiles.begin(second, view.template tile_of_memory<T>(terms.place, View::kV, tile * kTile, kTile));
        terms.load_memory(tile * kTile);
      }
    }

    MTF_DEVICE void load_queries(int tile, int64_t group) {
      terms.load_sights(kernel.rows.least + group * view.rows, tile * kTile);
      for (int i = block.thread(); i < kTile; i += block.threads()) {
        const int row = tile * kTile + i;
        QueryTerms<C> query{0, 0, 1};
        if (row < view.rows) {
          query.log_sum = *view.template row<C>(terms.place, View::kLogSum, view.folded(row));
          query.delta = kernel.rows.deltas[group * view.rows + row];
          const bool sums_all = kernel.rows.least[group * view.rows + row] > 0 && !view.has_extra_logit();
          if (sums_all) query.factor = Math::exp(query.log_sum);
        }
        queries[i] = query;
      }
    }

    /// Lists the tiles from `window` on that the tile of rows sees or is seen by; returns their number.
    MTF_DEVICE int list(int64_t group, int row_tile, int window) {
      const auto end = static_cast<int>(kernel.column_tiles.value());
      const auto visibility_of = [&](int tile) {
        const int query_tile = kMemoryRows ? tile : row_tile, memory_tile = kMemoryRows ? row_tile : tile;
        const int64_t query_tiles = kMemoryRows ? end : kernel.row_tiles.value();
        const int64_t memory_tiles = kMemoryRows ? kernel.row_tiles.value() : end;
        const int begin = memory_tile * kTile, behind = begin + kTile;
        const MemoryRanges memory =
            kernel.rows.memory_ranges != nullptr
                ? kernel.rows.memory_ranges[group * memory_tiles + memory_tile]
                : MemoryRanges::of_indices(begin, behind < view.memory ? behind : view.memory);
        const bool whole = behind <= view.memory && (query_tile + 1) * kTile <= view.rows;
        return cuda::visibility(view, kernel.rows.sight_ranges[group * query_tiles + query_tile], memory,
                                whole);
      };
      return list_tiles(block, window, end, visibility_of, list_of_tiles, counts);
    }
    MTF_DEVICE int tile(int n) const { return list_of_tiles[n] / kVisibilities; }
    MTF_DEVICE int visibility(int n) const { return list_of_tiles[n] % kVisibilities; }
  };

  /// Turns logits into weights (times the noise) and gradients of the weights into gradients of the logits.
  MTF_DEVICE void make_gradients(const Walk& walk, int visibility, typename Tiles::Scores& logits,
                                 typename Tiles::Scores& d_weights) const {
    const bool has_noise = walk.terms.has_noise();
    if (visibility & kSeesAll && !has_noise) {
      Terms::for_each(walk.tiles, [&](int i, int j, int query, int) {
        const QueryTerms<C>& terms = walk.queries[query];
        logits[i][j] = Tiles::weight(logits[i][j], terms.log_sum);
        d_weights[i][j] = logits[i][j] * (d_weights[i][j] - terms.delta);
      });
      return;
    }
    Terms::for_each(walk.tiles, [&](int i, int j, int query, int entry) {
      const QueryTerms<C>& terms = walk.queries[query];
      const bool seen = logits[i][j] != -std::numeric_limits<C>::infinity();
      const C multiplier = has_noise ? terms.factor * walk.terms.noise(query, entry) : terms.factor;
      const C weight = Tiles::weight(logits[i][j], terms.log_sum);
      d_weights[i][j] = seen ? weight * (d_weights[i][j] * multiplier - terms.delta) : C(0);
      logits[i][j] = seen ? weight * multiplier : C(0);
    });
  }

  MTF_DEVICE void add_to_buckets(const Block& block, const Walk& walk, int visibility,
                                 const typename Tiles::Scores& d_logits, C* sums) const {
    const auto add = [&](int relative, C value) {
      const int bucket = walk.terms.bias.bucket(relative) - first_bucket;
      if (bucket >= 0 && bucket < kBucketsAtOnce) sums[bucket * Tiles::kThreads + block.thread()] += value;
    };
    if (visibility & (kFarBefore | kFarBehind)) {
      C sum = 0;
      Terms::for_each(walk.tiles, [&](int i, int j, int, int) { sum += d_logits[i][j]; });
      add(walk.terms.bias.far_position(visibility), sum);
    } else {
      Terms::for_each(walk.tiles, [&](int i, int j, int query, int entry) {
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

/// Launches both loops.
template <class Tiles>
void launch_backward(const Launcher& launch, const AttentionView& view,
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
}

}  // namespace mtf::cuda
