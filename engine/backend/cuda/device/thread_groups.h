// How the threads of a grid divide the rows of a tensor: groups of threads, one for a row or for a part of it.
//
//   const ThreadGroup group(block, groups);
//   float sum = 0;
//   for (int i = group.rank(); i < group.count(); i += group.size()) sum += x[group.offset() + (group.begin() + i)
//   * stride]; sum = group.reduce(block, sum, 0.0f, Sum{}); if (group.leads()) y[group.row()] = sum;
#pragma once

#include <algorithm>
#include <bit>
#include <type_traits>

#include "engine/backend/cuda/device/block.h"
#include "engine/backend/cuda/device/element_walk.h"
#include "engine/backend/cuda/device/kernel_launch.h"
#include "engine/backend/rows.h"

namespace mtf::cuda {

/// Threads that a device is kept busy with.
inline constexpr int64_t kBusyThreads = 1 << 17;

/// What a group needs to know; made on the host, a pure function of shapes.
struct ThreadGroups {
  int64_t rows = 1;
  int64_t length = 1;        ///< elements of a row
  Divisor stride{1, 1};      ///< distance of a row's elements: as many rows lie interleaved
  bool interleaved = false;  ///< neighbouring threads work on neighbouring rows, not on one row
  int size = kWarp;  ///< threads of a group: a power of two, up to kWarp if not interleaved; or whole warps
  int slots = 1;     ///< groups of a block: a power of two; 1 where groups are several whole warps
  int shift = 5;  ///< thread >> shift: which group of the block, or which thread of the group if interleaved
  int parts = 1;  ///< groups that divide a row
  int64_t part_length = 1;  ///< but for the last part
  Divisor blocks{1, 1};     ///< of a part of all rows

  int threads() const { return size * slots; }
  /// `state_bytes`: of what groups reduce.
  LaunchShape shape(size_t state_bytes) const {
    const int states = interleaved ? threads() : size > kWarp ? kWarp : 0;
    return {blocks.value() * parts, threads(), states * static_cast<int64_t>(state_bytes)};
  }
};

/// A value, or a struct with `each(f)` that applies f to every member, from another lane.
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
    if (idle_) row_ = groups.rows - 1;  // whose statistics may be read
  }

  MTF_DEVICE int64_t row() const { return row_; }
  MTF_DEVICE int part() const { return part_; }
  MTF_DEVICE int rank() const { return rank_; }
  MTF_DEVICE int size() const { return groups_.size; }
  /// One thread of each row or part.
  MTF_DEVICE bool leads() const { return rank_ == 0 && !idle_; }
  /// Of the row's first element, and the distance of the others.
  MTF_DEVICE int64_t offset() const {
    if (stride() == 1) return row_ * groups_.length;
    const Division division = groups_.stride(row_);
    return division.quotient * groups_.length * stride() + division.remainder;
  }
  MTF_DEVICE int64_t stride() const { return groups_.stride.value(); }
  /// Elements of the row that are the group's: none where there are more groups than rows.
  MTF_DEVICE int64_t begin() const { return part_ * groups_.part_length; }
  MTF_DEVICE int count() const {
    return idle_ ? 0 : static_cast<int>(std::min(groups_.length - begin(), groups_.part_length));
  }

  /// The values of the threads of a group, combined in a fixed order; all of them get the result. All threads
  /// of the block take part. Uses shared memory from its begin on. ThreadGroup that are not interleaved.
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
  /// Of interleaved groups.
  template <class T, class Combine>
  MTF_DEVICE T reduce_interleaved(const Block& block, const T& value, const Combine& combine) const {
    if (groups_.size == 1) return value;
    T* shared = block.shared<T>();
    const int thread = block.thread();
    shared[thread] = value;
    for (int width = groups_.size / 2; width > 0; width /= 2) {
      block.sync();
      if (rank_ < width) shared[thread] = combine(shared[thread], shared[thread + width * groups_.slots]);
    }
    block.sync();
    const T result = shared[slot_];
    block.sync();
    return result;
  }
  /// Of all.
  template <class T, class Combine>
  MTF_DEVICE T reduce(const Block& block, const T& value, const T& identity, const Combine& combine) const {
    return groups_.interleaved ? reduce_interleaved(block, value, combine)
                               : reduce_adjacent(block, value, identity, combine);
  }

 private:
  /// Of each `lanes` lanes. The first of them gets the result: roundings of others may differ.
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

/// Packs of N of a contiguous run of `count` elements, after `head` single ones, for thread `rank` of `size`:
/// one(i) for single elements, take(load(i)) for packs that begin with element i, and flush() now and then
/// and at the end.
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
    const int last = std::min(packs, next + kToFlush * size);  // an even number of times, or the end
    MTF_UNROLL(1)
    for (; next < last; next += 2 * size) {  // two are on their way at the same time
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
/// Single elements before the first whole pack of a run of `count` from `offset`.
template <int N>
MTF_DEVICE int elements_before_pack(int64_t offset, int count) {
  return std::min(count, static_cast<int>(-offset & (N - 1)));
}

/// ThreadGroup for contiguous rows. Threads handle `pack` elements at a time, `times` times before groups of up to
/// `most_threads` threads grow.
ThreadGroups contiguous_groups(int64_t rows, int64_t length, int pack, int times = 4, int most_threads = 512);
/// ThreadGroup for rows whose elements are `stride` apart.
ThreadGroups interleaved_groups(int64_t rows, int64_t length, int64_t stride);
/// The same groups, but long rows are divided into parts of whole packs where there are too few rows to keep a
/// device busy.
ThreadGroups divided(ThreadGroups groups, int pack = 1);

}  // namespace mtf::cuda
