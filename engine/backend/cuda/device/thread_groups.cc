#include "engine/backend/cuda/device/thread_groups.h"

#include "engine/base/integer_division.h"

namespace mtf::cuda {
namespace {

constexpr int kGroupsThreads = 128;       // threads of a block with several groups
constexpr int kInterleavedThreads = 512;  // largest size of a block of interleaved groups
constexpr int kTimesInPart = 16;          // loop iterations of a thread below which a row is not divided

ThreadGroups groups_of(int64_t rows, int64_t length) {
  ThreadGroups groups;
  groups.rows = rows;
  groups.length = groups.part_length = length;
  return groups;
}

/// The least power of two that is not below n.
int power_of_two_from(int64_t n) { return static_cast<int>(std::bit_ceil(static_cast<uint64_t>(n))); }
int log2_of(int power_of_two) { return std::countr_zero(static_cast<unsigned>(power_of_two)); }

/// Sets the members that follow from the others.
ThreadGroups completed(ThreadGroups groups) {
  const int64_t blocks = ceil_divide(groups.rows, groups.slots);
  groups.blocks = Divisor(blocks, blocks * groups.parts);
  return groups;
}

}  // namespace

ThreadGroups contiguous_groups(int64_t rows, int64_t length, int pack, int times, int most_threads) {
  ThreadGroups groups = groups_of(rows, length);
  const int64_t packs = ceil_divide(length, pack);
  if (packs <= kWarp * times) {
    groups.size = power_of_two_from(ceil_divide(packs, times));
    while (groups.size < std::min<int64_t>(kWarp, packs) && rows * groups.size < kBusyThreads)
      groups.size *= 2;
    groups.slots = kGroupsThreads / groups.size;
    groups.shift = log2_of(groups.size);
  } else {
    groups.size =
        static_cast<int>(std::min<int64_t>(most_threads, ceil_divide(packs, kWarp * times) * kWarp));
    groups.shift = 30;
  }
  return completed(groups);
}

ThreadGroups interleaved_groups(int64_t rows, int64_t length, int64_t stride, int neighbours) {
  ThreadGroups groups = groups_of(rows, length);
  groups.stride = Divisor(stride, rows);
  groups.interleaved = true;
  neighbours = power_of_two_from(std::min<int64_t>(neighbours, stride));
  const int most = power_of_two_from(std::min<int64_t>(kInterleavedThreads / neighbours, length));
  groups.size = power_of_two_from(std::clamp<int64_t>(ceil_divide(kBusyThreads, rows), 1, most));
  groups.slots = std::max(neighbours, kGroupsThreads / groups.size);
  groups.shift = log2_of(groups.slots);
  return completed(groups);
}

ThreadGroups divided(ThreadGroups groups, int pack) {
  const int64_t at_once = int64_t{groups.size} * pack;
  const int64_t possible = groups.length / (at_once * kTimesInPart);
  const int64_t parts = std::min(ceil_divide(kBusyThreads, groups.rows * groups.size), possible);
  if (parts > 1) {
    groups.part_length = ceil_divide(ceil_divide(groups.length, parts), at_once) * at_once;
    groups.parts = static_cast<int>(ceil_divide(groups.length, groups.part_length));
  }
  MTF_CHECK(groups.part_length < int64_t{1} << 30, "a row of {} elements", groups.length);
  return completed(groups);
}

}  // namespace mtf::cuda
