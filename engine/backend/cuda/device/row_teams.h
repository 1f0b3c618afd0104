// How the threads of a grid divide the rows of a tensor: teams of threads, one for a row or for a part of it.
//
//   const Team team(block, teams);
//   float sum = 0;
//   for (int i = team.rank(); i < team.count(); i += team.size()) sum += x[team.offset() + (team.begin() + i)
//   * stride]; sum = team.reduce(block, sum, 0.0f, Sum{}); if (team.leads()) y[team.row()] = sum;
#pragma once

#include <algorithm>
#include <bit>
#include <type_traits>

#include "engine/backend/cuda/device/block.h"
#include "engine/backend/cuda/device/indexing.h"
#include "engine/backend/cuda/device/launch.h"
#include "engine/backend/rows.h"

namespace mtf::cuda {

/// Threads that a device is kept busy with.
inline constexpr int64_t kBusyThreads = 1 << 17;

/// What a team needs to know; made on the host, a pure function of shapes.
struct RowTeams {
  int64_t rows = 1;
  int64_t length = 1;        ///< elements of a row
  Divisor stride{1, 1};      ///< distance of a row's elements: as many rows lie interleaved
  bool interleaved = false;  ///< neighbouring threads work on neighbouring rows, not on one row
  int size = kWarp;  ///< threads of a team: a power of two, up to kWarp if not interleaved; or whole warps
  int slots = 1;     ///< teams of a block: a power of two; 1 where teams are several whole warps
  int shift = 5;     ///< thread >> shift: which team of the block, or which thread of the team if interleaved
  int parts = 1;     ///< teams that divide a row
  int64_t part_length = 1;  ///< but for the last part
  Divisor blocks{1, 1};     ///< of a part of all rows

  int threads() const { return size * slots; }
  /// `state_bytes`: of what teams reduce.
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

class Team {
 public:
  MTF_DEVICE Team(const Block& block, const RowTeams& teams) : teams_(teams) {
    const int high = block.thread() >> teams.shift, low = block.thread() & ((1 << teams.shift) - 1);
    slot_ = teams.interleaved ? low : high;
    rank_ = teams.interleaved ? high : low;
    const Division part = teams.blocks(block.index());
    part_ = static_cast<int>(part.quotient);
    row_ = part.remainder * teams.slots + slot_;
    idle_ = row_ >= teams.rows;
    if (idle_) row_ = teams.rows - 1;  // whose statistics may be read
  }

  MTF_DEVICE int64_t row() const { return row_; }
  MTF_DEVICE int part() const { return part_; }
  MTF_DEVICE int rank() const { return rank_; }
  MTF_DEVICE int size() const { return teams_.size; }
  /// One thread of each row or part.
  MTF_DEVICE bool leads() const { return rank_ == 0 && !idle_; }
  /// Of the row's first element, and the distance of the others.
  MTF_DEVICE int64_t offset() const {
    if (stride() == 1) return row_ * teams_.length;
    const Division division = teams_.stride(row_);
    return division.quotient * teams_.length * stride() + division.remainder;
  }
  MTF_DEVICE int64_t stride() const { return teams_.stride.value(); }
  /// Elements of the row that are the team's: none where there are more teams than rows.
  MTF_DEVICE int64_t begin() const { return part_ * teams_.part_length; }
  MTF_DEVICE int count() const {
    return idle_ ? 0 : static_cast<int>(std::min(teams_.length - begin(), teams_.part_length));
  }

  /// The values of the threads of a team, combined in a fixed order; all of them get the result. All threads
  /// of the block take part. Uses shared memory from its begin on. Teams that are not interleaved.
  template <class T, class Combine>
  MTF_DEVICE T reduce_adjacent(const Block& block, T value, const T& identity, const Combine& combine) const {
    if (teams_.size <= kWarp) {
      value = reduce_lanes(block, value, teams_.size, combine);
      return shuffled(block, value, block.lane() & ~(teams_.size - 1));
    }
    value = reduce_lanes(block, value, kWarp, combine);
    T* shared = block.shared<T>();
    if (block.lane() == 0) shared[block.warp()] = value;
    block.sync();
    value = block.lane() < block.warps() ? shared[block.lane()] : identity;
    block.sync();
    return shuffled(block, reduce_lanes(block, value, block.warps(), combine), 0);
  }
  /// Of interleaved teams.
  template <class T, class Combine>
  MTF_DEVICE T reduce_interleaved(const Block& block, const T& value, const Combine& combine) const {
    if (teams_.size == 1) return value;
    T* shared = block.shared<T>();
    const int thread = block.thread();
    shared[thread] = value;
    for (int width = teams_.size / 2; width > 0; width /= 2) {
      block.sync();
      if (rank_ < width) shared[thread] = combine(shared[thread], shared[thread + width * teams_.slots]);
    }
    block.sync();
    const T result = shared[slot_];
    block.sync();
    return result;
  }
  /// Of all.
  template <class T, class Combine>
  MTF_DEVICE T reduce(const Block& block, const T& value, const T& identity, const Combine& combine) const {
    return teams_.interleaved ? reduce_interleaved(block, value, combine)
                              : reduce_adjacent(block, value, identity, combine);
  }

 private:
  /// Of each `lanes` lanes. The first of them gets the result: roundings of others may differ.
  template <class T, class Combine>
  MTF_DEVICE static T reduce_lanes(const Block& block, T value, int lanes, const Combine& combine) {
    for (int mask = 1; mask < lanes; mask *= 2) value = combine(value, shuffled_xor(block, value, mask));
    return value;
  }

  const RowTeams& teams_;
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

/// Teams for contiguous rows. Threads handle `pack` elements at a time, `times` times before teams of up to
/// `most_threads` threads grow.
RowTeams contiguous_teams(int64_t rows, int64_t length, int pack, int times = 4, int most_threads = 512);
/// Teams for rows whose elements are `stride` apart.
RowTeams interleaved_teams(int64_t rows, int64_t length, int64_t stride);
/// The same teams, but long rows are divided into parts of whole packs where there are too few rows to keep a
/// device busy.
RowTeams divided(RowTeams teams, int pack = 1);

}  // namespace mtf::cuda
