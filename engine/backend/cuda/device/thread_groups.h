// ThreadGroups divide the rows of a tensor among the threads of a grid: a group of threads handles a row or a
// part of one.
//
//   const ThreadGroup group(block, groups);
//   const float* row = x + group.offset();
//   float sum = 0;
//   for (int i = group.rank(); i < group.count(); i += group.size())
//     sum += row[(group.begin() + i) * group.stride()];
//   sum = group.reduce(block, sum, 0.0f, Sum{});
//   if (group.leads()) y[group.row()] = sum;
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "engine/backend/cuda/device/block.h"
#include "engine/backend/cuda/device/element_walk.h"
#include "engine/backend/cuda/device/kernel_launch.h"
#include "engine/backend/rows.h"

namespace mtf::cuda {

/// The number of threads that keep a device busy.
inline constexpr int64_t kBusyThreads = 1 << 17;

/// The division of rows among threads; made on the host, a pure function of shapes.
struct ThreadGroups {
  int64_t rows = 1;
  int64_t length = 1;        ///< elements of a row
  Divisor stride{1, 1};      ///< distance between a row's elements; as many rows are interleaved
  bool interleaved = false;  ///< neighbouring threads work on neighbouring rows
  /// Threads of a group: a power of two, up to kWarp if not interleaved; or whole warps.
  int size = kWarp;
  /// Groups of a block: a power of two; 1 if a group is several whole warps.
  int slots = 1;
  /// thread >> shift is the group of the block, or, if interleaved, the thread of the group.
  int shift = 5;
  int parts = 1;            ///< groups that divide a row
  int64_t part_length = 1;  ///< elements of a part, except the last one
  Divisor blocks{1, 1};     ///< blocks of one part of all rows

  int threads() const { return size * slots; }
  /// `state_bytes` is the size of the values that groups reduce.
  LaunchShape shape(size_t state_bytes) const {
    const int states = interleaved ? threads() : size > kWarp ? kWarp : 0;
    return {blocks.value() * parts, threads(), states * static_cast<int64_t>(state_bytes)};
  }
};

/// A value from another lane. T is arithmetic, or a struct with `each(f)` that applies f to every member.
template <class T>
MTF_DEVICE T shuffled(const Block& block, const T& value, int lane) {
  if constexpr (std::is_arithmetic_v<T>) {
    return block.shuffle(value, lane);
  } else {
    return value.each([&](auto member) { return block.shuffle(member, lane); });
  }
}
template <class T>
MTF_DEVICE T shuffled_xor(const Block& block, const T& value, int mask) {
  if constexpr (std::is_arithmetic_v<T>) {
    return block.shuffle_xor(value, mask);
  } else {
    return value.each([&](auto member) { return block.shuffle_xor(member, mask); });
  }
}

class ThreadGroup {
 public:
  MTF_DEVICE ThreadGroup(const Block& block, const ThreadGroups& groups) : groups_(groups) {
    const int high = block.thread() >> groups.shift, low = block.thread() & ((1 << groups.shift) - 1);
    slot_ = groups.interleaved ? low : high;
    rank_ = groups.interleaved ? high : low;
    const Division part = groups.blocks(block.index());
    part_ = static_cast<int>(part.quotient);
    row_ = part.remainder * groups.slots + slot_;
    idle_ = row_ >= groups.rows;
    // An idle group may read the statistics of this row.
    if (idle_) row_ = groups.rows - 1;
  }

  MTF_DEVICE int64_t row() const { return row_; }
  MTF_DEVICE int part() const { return part_; }
  MTF_DEVICE int rank() const { return rank_; }
  MTF_DEVICE int size() const { return groups_.size; }
  /// True for one thread of each row or part.
  MTF_DEVICE bool leads() const { return rank_ == 0 && !idle_; }
  /// offset() is that of the row's first element, stride() the distance between its elements.
  MTF_DEVICE int64_t offset() const {
    if (stride() == 1) return row_ * groups_.length;
    const Division division = groups_.stride(row_);
    return division.quotient * groups_.length * stride() + division.remainder;
  }
  MTF_DEVICE int64_t stride() const { return groups_.stride.value(); }
  /// The elements [begin(), begin() + count()) of the row belong to the group; none if it has no row.
  MTF_DEVICE int64_t begin() const { return part_ * groups_.part_length; }
  MTF_DEVICE int count() const {
    return idle_ ? 0 : static_cast<int>(std::min(groups_.length - begin(), groups_.part_length));
  }

  /// Combines the values of the threads of a group in a fixed order; all of them get the result. All threads
  /// of the block must take part. Uses shared memory from its begin. Only for groups that are not
  /// interleaved.
  template <class T, class Combine>
  MTF_DEVICE T reduce_adjacent(const Block& block, T value, const T& identity, const Combine& combine) const {
    if (groups_.size <= kWarp) {
      value = reduce_lanes(block, value, groups_.size, combine);
      return shuffled(block, value, block.lane() & ~(groups_.size - 1));
    }
    value = reduce_lanes(block, value, kWarp, combine);
    T* shared = block.shared<T>();
    if (block.lane() == 0) shared[block.warp()] = value;
    block.sync();
    value = block.lane() < block.warps() ? shared[block.lane()] : identity;
    block.sync();
    return shuffled(block, reduce_lanes(block, value, block.warps(), combine), 0);
  }
  /// The same for interleaved groups, for each of N values. In shared memory those of one kind are neighbours.
  template <class T, int N, class Combine>
  MTF_DEVICE void reduce_interleaved(const Block& block, T (&values)[N], const Combine& combine) const {
    if (groups_.size == 1) return;
    T* shared = block.shared<T>();
    const int thread = block.thread(), threads = block.threads();
    for (int n = 0; n < N; ++n) shared[n * threads + thread] = values[n];
    for (int width = groups_.size / 2; width > 0; width /= 2) {
      block.sync();
      if (rank_ >= width) continue;
      for (int n = 0; n < N; ++n) {
        T& mine = shared[n * threads + thread];
        mine = combine(mine, shared[n * threads + thread + width * groups_.slots]);
      }
    }
    block.sync();
    for (int n = 0; n < N; ++n) values[n] = shared[n * threads + slot_];
    block.sync();
  }
  /// The same for all groups.
  template <class T, class Combine>
  MTF_DEVICE T reduce(const Block& block, const T& value, const T& identity, const Combine& combine) const {
    if (!groups_.interleaved) return reduce_adjacent(block, value, identity, combine);
    T values[] = {value};
    reduce_interleaved(block, values, combine);
    return values[0];
  }

 private:
  /// Combines the values of every `lanes` adjacent lanes. Only the first lane gets the result: roundings of
  /// the others may differ.
  template <class T, class Combine>
  MTF_DEVICE static T reduce_lanes(const Block& block, T value, int lanes, const Combine& combine) {
    for (int mask = 1; mask < lanes; mask *= 2) value = combine(value, shuffled_xor(block, value, mask));
    return value;
  }

  const ThreadGroups& groups_;
  int64_t row_;
  int slot_, rank_, part_;
  bool idle_;
};

/// Visits the part of thread `rank` of `size` of a contiguous run of `count` elements, in packs of N after
/// `head` single elements. Calls one(i) for single elements, take(load(i)) for packs that begin with element
/// i, and flush() now and then and at the end.
template <int N, class One, class Load, class Take, class Flush>
MTF_DEVICE void visit_packs(int count, int head, int rank, int size, const One& one, const Load& load,
                            const Take& take, const Flush& flush) {
  constexpr int kToFlush = 32;
  const int packs = (count - head) / N, rest = count - head - packs * N;
  MTF_UNROLL(1)
  for (int i = rank, n = 1; i < head + rest; i += size, ++n) {
    one(i < head ? i : i + packs * N);
    if (n % kToFlush == 0) flush();
  }
  MTF_UNROLL(1)
  for (int next = rank; next < packs;) {
    const int last = std::min(packs, next + kToFlush * size);  // an even number of iterations, or the end
    MTF_UNROLL(1)
    for (; next < last; next += 2 * size) {  // two packs are in flight
      const bool both = next + size < last;
      const auto pack = load(head + next * N);
      auto other = pack;
      if (both) other = load(head + (next + size) * N);
      take(pack);
      if (both) take(other);
    }
    flush();
  }
  flush();
}
/// The number of single elements before the first whole pack of a run of `count` elements from `offset`.
template <int N>
MTF_DEVICE int elements_before_pack(int64_t offset, int count) {
  return std::min(count, static_cast<int>(-offset & (N - 1)));
}

/// ThreadGroups for contiguous rows. A thread handles `pack` elements at a time, and up to `times` packs
/// before groups grow, to at most `most_threads` threads.
ThreadGroups contiguous_groups(int64_t rows, int64_t length, int pack, int times = 4, int most_threads = 512);
/// ThreadGroups for rows whose elements are `stride` apart. Up to `neighbours` rows are side by side in a warp: with
/// fewer of them more threads share a row.
ThreadGroups interleaved_groups(int64_t rows, int64_t length, int64_t stride, int neighbours = kWarp);
/// The same groups, but if there are too few rows to keep a device busy, long rows are divided into parts of
/// whole packs.
ThreadGroups divided(ThreadGroups groups, int pack = 1);

}  // namespace mtf::cuda
