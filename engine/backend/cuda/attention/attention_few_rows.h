// Attention for groups with few rows (decoding). It is bound by memory bandwidth, so keys and values are read
// once, as packs, for all rows. If there are too few groups, the memory of each is split among several
// blocks, whose results are merged in order.
#pragma once

#include <cstdint>

#include "engine/backend/cuda/attention/attention_norm.h"
#include "engine/backend/cuda/attention/attention_terms.h"

namespace mtf::cuda {

/// The partial results of the blocks of a group: [groups][splits][rows].
template <class C>
struct AttentionSplits {
  C* values;  ///< [..][value]: sums of values times exp(logit - top)
  C* tops;
  C* sums;  ///< sums of exp(logit - top)
};

struct Larger {
  template <class C>
  MTF_DEVICE C operator()(C a, C b) const {
    return larger(a, b);
  }
};

template <class T>
struct AttentionFewRows {
  using C = Computed<T>;
  using View = AttentionView;
  static constexpr int kMaxThreads = 128;
  static constexpr int kMostRows = 8;
  static constexpr int kEntries = kMaxThreads;  ///< entries of the memory processed at a time
  static constexpr int kKeyLanes = 8;           ///< neighbouring lanes that share a key
  static constexpr int kElements = kPack<T>;    ///< elements of keys and values that a thread reads at a time
  static constexpr int64_t kMostQueryBytes = 32 << 10;

  View view;
  const int* least;  ///< [groups][rows], Sight::least; null if the memory has no ids
  T* result;
  C* log_sums;
  AttentionSplits<C> parts;  ///< used if there are several splits
  Divisor splits;
  int entries_per_split;
  /// Packs of a value, and threads that read the same pack of different values.
  int value_packs, value_lanes;

  static bool fits(const View& view) {
    return view.rows <= kMostRows && view.value <= kMaxThreads * kElements &&
           view.rows * padded_key(view) * static_cast<int64_t>(sizeof(C)) <= kMostQueryBytes;
  }
  /// The length of a key rounded up to whole packs.
  MTF_HOST_DEVICE static int padded_key(const View& view) {
    return (view.key + kElements - 1) / kElements * kElements;
  }
  static int64_t splits_of(const View& view) {
    constexpr int64_t kBlocks = 512, kFewestEntries = 2 * kEntries;
    const int64_t most = (view.memory + kFewestEntries - 1) / kFewestEntries;
    return std::clamp<int64_t>((kBlocks + view.groups.size() - 1) / view.groups.size(), 1, most);
  }

  AttentionFewRows(const View& view, const int* least, T* result, C* log_sums,
                   const AttentionSplits<C>& parts)
      : view(view),
        least(least),
        result(result),
        log_sums(log_sums),
        parts(parts),
        splits(splits_of(view), view.groups.size() * splits_of(view)),
        value_packs((view.value + kElements - 1) / kElements),
        value_lanes(kMaxThreads / value_packs) {
    const int64_t each = (view.memory + splits.value() - 1) / splits.value();
    entries_per_split = static_cast<int>((each + kEntries - 1) / kEntries * kEntries);
  }

  struct Parts {
    int64_t queries, logits, seen, sights, bias, reduced, sums, bytes;

    MTF_HOST_DEVICE Parts(const View& view, int value_packs, int value_lanes) {
      MemoryParts parts;
      queries = parts.take<C>(view.rows * padded_key(view));
      logits = parts.take<C>(view.rows * kEntries);
      seen = parts.take<bool>(kEntries);
      sights = parts.take<Sight>(kMostRows);
      bias = parts.take<C>(Bias::shared_elements(view));
      reduced = parts.take<C>(kMaxThreads / kWarp);
      sums = parts.take<C>(int64_t{view.rows} * value_lanes * value_packs * kElements);
      bytes = parts.bytes();
    }
  };
  LaunchShape shape() const {
    return {view.groups.size() * splits.value(), kMaxThreads, Parts(view, value_packs, value_lanes).bytes};
  }

  using Bias = BiasByPosition<C, true>;
  /// A thread's state of all rows.
  struct Rows {
    C top[kMostRows], sum[kMostRows];  ///< sums of this thread only
    C values[kMostRows][kElements];
  };

  MTF_DEVICE void operator()(const Block& block) const {
    const Parts shared(view, value_packs, value_lanes);
    const auto [group, split] = splits(block.index());
    const View::Place place = view.groups.at(group);
    C* queries = block.shared<C>(shared.queries);
    C* logits = block.shared<C>(shared.logits);
    bool* seen = block.shared<bool>(shared.seen);
    Sight* sights = block.shared<Sight>(shared.sights);

    Bias bias(view, block.shared<C>(shared.bias));
    bias.load(block, view, place);
    if (block.thread() < view.rows) {
      Sight sight = sight_of(view, place, block.thread());
      if (view.masked())
        sight.least =
            least != nullptr ? least[group * view.rows + block.thread()] : least_by_index(sight, view.memory);
      sights[block.thread()] = sight;
    }
    for (int row = 0; row < view.rows; ++row) {
      const T* from = view.row<T>(place, View::kQ, view.folded(row));
      for (int i = block.thread(); i < padded_key(view); i += kMaxThreads)
        queries[row * padded_key(view) + i] = i < view.key ? widen(from[i]) : C(0);
    }
    block.sync();
    SightRanges ranges;
    for (int row = 0; row < view.rows; ++row) ranges.add_sight(sights[row]);
    const IndexLimits limits(view, ranges);
    const int64_t begin_of_split = split * entries_per_split,
                  end_of_split = begin_of_split + entries_per_split;
    const int64_t begin = limits.first > begin_of_split ? limits.first : begin_of_split;
    const int64_t end = limits.last < end_of_split ? limits.last : end_of_split;

    Rows rows;
    for_each_row([&](int row) {
      rows.top[row] = -std::numeric_limits<C>::infinity();
      rows.sum[row] = 0;
      MTF_UNROLL(kElements)
      for (int e = 0; e < kElements; ++e) rows.values[row][e] = 0;
    });
    for (int64_t first = begin; first < end; first += kEntries) {
      const int count = end - first < kEntries ? static_cast<int>(end - first) : kEntries;
      const int entry = static_cast<int>(first) + block.thread();
      const bool exists = block.thread() < count;
      const MemoryIds ids = exists ? memory_ids(view, place, entry) : MemoryIds{};
      bool any = false;
      for (int row = 0; row < view.rows; ++row) any |= exists && sights[row].sees(ids);
      seen[block.thread()] = any;
      block.sync();
      make_logits(block, place, static_cast<int>(first), queries, seen, logits);
      block.sync();
      for_each_row([&](int row) {
        const Sight& sight = sights[row];
        C logit = logits[row * kEntries + block.thread()];
        if (view.has_soft_cap()) logit = SoftCap<C>(view)(logit);
        if (bias.any()) logit += bias(ids.position - sight.position);
        logit = !exists || !sight.sees(ids) ? -std::numeric_limits<C>::infinity()
                : sight.least > 0           ? C(0)
                                            : logit;
        const C top =
            reduce_block(block, larger(logit, rows.top[row]), Larger{}, block.shared<C>(shared.reduced));
        const C base = top == -std::numeric_limits<C>::infinity() ? C(0) : top;
        const C scale = exponential(rows.top[row] - base);
        C weight = exponential(logit - base);
        rows.top[row] = top;
        rows.sum[row] = rows.sum[row] * scale + weight;
        MTF_UNROLL(kElements)
        for (int e = 0; e < kElements; ++e) rows.values[row][e] *= scale;
        if (any && view.has(View::kNoise))
          weight *= view.row<C>(place, View::kNoise, view.folded(row))[entry];
        logits[row * kEntries + block.thread()] = weight;
      });
      block.sync();
      add_values(block, place, static_cast<int>(first), count, seen, logits, rows);
      block.sync();
    }
    save(block, place, group, split, sights, rows, shared);
  }

 private:
  template <class Visit>
  MTF_DEVICE void for_each_row(const Visit& visit) const {
    MTF_UNROLL(kMostRows)
    for (int row = 0; row < kMostRows; ++row) {
      if (row < view.rows) visit(row);
    }
  }

  MTF_DEVICE Pack<T, kElements> load_elements(const T* row, int first, int columns) const {
    const int rest = columns - first;
    if (view.aligned && rest >= kElements) return load<kElements>(row + first);
    Pack<T, kElements> pack{};
    for (int e = 0; e < kElements; ++e) {
      if (e < rest) pack[e] = row[first + e];
    }
    return pack;
  }

  /// logits[row][i] = queries[row] . the key of entry `first` + i.
  MTF_DEVICE void make_logits(const Block& block, const View::Place& place, int first, const C* queries,
                              const bool* seen, C* logits) const {
    constexpr int kAtOnce = kMaxThreads / kKeyLanes;
    const T* keys = view.of_group<T>(place, View::kK) + first * view.key_stride;
    const int lane = block.lane() % kKeyLanes;
    MTF_UNROLL(4)
    for (int i = 0; i < kEntries / kAtOnce; ++i) {
      const int entry = i * kAtOnce + block.thread() / kKeyLanes;
      C sums[kMostRows] = {};
      if (seen[entry]) {
        for (int column = lane * kElements; column < view.key; column += kKeyLanes * kElements) {
          const Pack<T, kElements> key = load_elements(keys + entry * view.key_stride, column, view.key);
          for_each_row([&](int row) {
            MTF_UNROLL(kElements)
            for (int e = 0; e < kElements; ++e)
              sums[row] += queries[row * padded_key(view) + column + e] * widen(key[e]);
          });
        }
      }
      for_each_row([&](int row) {
        MTF_UNROLL(kKeyLanes)
        for (int mask = 1; mask < kKeyLanes; mask *= 2) sums[row] += block.shuffle_xor(sums[row], mask);
        if (lane == 0) logits[row * kEntries + entry] = sums[row];
      });
    }
  }

  /// rows.values += weights . values
  MTF_DEVICE void add_values(const Block& block, const View::Place& place, int first, int count,
                             const bool* seen, const C* weights, Rows& rows) const {
    const int pack = block.thread() % value_packs, lane = block.thread() / value_packs;
    if (lane >= value_lanes) return;
    const T* values = view.of_group<T>(place, View::kV) + first * view.value_stride;
    MTF_UNROLL(4)
    for (int entry = lane; entry < count; entry += value_lanes) {
      if (!seen[entry]) continue;
      const Pack<T, kElements> value =
          load_elements(values + entry * view.value_stride, pack * kElements, view.value);
      for_each_row([&](int row) {
        const C weight = weights[row * kEntries + entry];
        MTF_UNROLL(kElements)
        for (int e = 0; e < kElements; ++e) rows.values[row][e] += weight * widen(value[e]);
      });
    }
  }

  MTF_DEVICE void save(const Block& block, const View::Place& place, int64_t group, int64_t split,
                       const Sight* sights, const Rows& rows, const Parts& shared) const {
    const int pack = block.thread() % value_packs, lane = block.thread() / value_packs;
    const int columns = value_packs * kElements;
    C* sums = block.shared<C>(shared.sums);
    for_each_row([&](int row) {
      if (lane >= value_lanes) return;
      for (int e = 0; e < kElements; ++e)
        sums[(row * value_lanes + lane) * columns + pack * kElements + e] = rows.values[row][e];
    });
    block.sync();
    for_each_row([&](int row) {
      const C sum = reduce_block(block, rows.sum[row], Sum{}, block.shared<C>(shared.reduced));
      const AttentionNorm<C> norm(view, rows.top[row], sum, sights[row].least);
      const int64_t part = (group * splits.value() + split) * view.rows + row;
      for (int column = block.thread(); column < view.value; column += kMaxThreads) {
        C value = 0;
        for (int i = 0; i < value_lanes; ++i) value += sums[(row * value_lanes + i) * columns + column];
        if (splits.value() > 1) {
          parts.values[part * view.value + column] = value;
        } else {
          result[view.offset(place, View::kResult, row) + column] = narrow<T>(value * norm.scale);
        }
      }
      if (block.thread() > 0) return;
      if (splits.value() > 1) {
        parts.tops[part] = rows.top[row];
        parts.sums[part] = sum;
      } else {
        log_sums[view.offset(place, View::kLogSum, row)] = norm.log_sum;
      }
    });
  }
};

/// Merges the splits; a thread computes one element of the result.
template <class T>
struct MergeAttentionSplits {
  using C = Computed<T>;
  using View = AttentionView;

  View view;
  const int* least;  ///< as in AttentionFewRows
  T* result;
  C* log_sums;
  AttentionSplits<C> parts;
  int64_t splits;
  Divisor columns, rows;

  explicit MergeAttentionSplits(const AttentionFewRows<T>& few)
      : view(few.view),
        least(few.least),
        result(few.result),
        log_sums(few.log_sums),
        parts(few.parts),
        splits(few.splits.value()),
        columns(view.value, view.groups.size() * view.rows * view.value),
        rows(view.rows, view.groups.size() * view.rows) {}
  LaunchShape shape() const { return over(view.groups.size() * view.rows * view.value, 1); }

  MTF_DEVICE void operator()(const Block& block) const {
    for (int64_t i = block.first(); i < view.groups.size() * view.rows * view.value; i += block.stride()) {
      const auto [group_and_row, column] = columns(i);
      const auto [group, row_index] = rows(group_and_row);
      const int row = static_cast<int>(row_index);
      const auto part = [&](int64_t split) { return (group * splits + split) * view.rows + row; };
      C top = -std::numeric_limits<C>::infinity(), sum = 0, value = 0;
      for (int64_t split = 0; split < splits; ++split) top = larger(top, parts.tops[part(split)]);
      const C base = top == -std::numeric_limits<C>::infinity() ? C(0) : top;
      for (int64_t split = 0; split < splits; ++split) {
        const C scale = exponential(parts.tops[part(split)] - base);
        sum += parts.sums[part(split)] * scale;
        value += parts.values[part(split) * view.value + column] * scale;
      }
      const View::Place place = view.groups.at(group);
      int least_of_row = 0;
      if (view.masked())
        least_of_row =
            least != nullptr ? least[group_and_row] : least_by_index(sight_of(view, place, row), view.memory);
      const AttentionNorm<C> norm(view, top, sum, least_of_row);
      result[view.offset(place, View::kResult, row) + column] = narrow<T>(value * norm.scale);
      if (column == 0) log_sums[view.offset(place, View::kLogSum, row)] = norm.log_sum;
    }
  }
};

}  // namespace mtf::cuda
