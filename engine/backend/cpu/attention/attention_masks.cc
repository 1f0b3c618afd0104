#include "engine/backend/cpu/attention/attention_masks.h"

#include <algorithm>
#include <limits>

#include "engine/base/dispatch.h"

namespace mtf {
namespace {

int32_t to_int32(int64_t value) {
  return static_cast<int32_t>(
      std::clamp<int64_t>(value, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()));
}

/// counts[m] += 1 where the id of m (its index if `ids` is null) is above, or not above, `limit`.
MTF_INLINE void count_above(const int32_t* ids, int32_t limit, int64_t begin, int64_t end, int32_t* counts) {
  if (ids != nullptr) {
    for (int64_t m = begin; m < end; ++m) counts[m] += ids[m] > limit;
  } else {
    for (int64_t m = begin; m < end; ++m) counts[m] += static_cast<int32_t>(m) > limit;
  }
}
MTF_INLINE void count_below(const int32_t* ids, int32_t limit, int64_t begin, int64_t end, int32_t* counts) {
  if (ids != nullptr) {
    for (int64_t m = begin; m < end; ++m) counts[m] += ids[m] < limit;
  } else {
    for (int64_t m = begin; m < end; ++m) counts[m] += static_cast<int32_t>(m) < limit;
  }
}

/// counts[m] = number of masks that hide entry m.
MTF_INLINE void count_masks(const QueryMasks& masks, int64_t begin, int64_t end, int32_t* counts) {
  if (masks.by_segment) {
    const auto segment = static_cast<int32_t>(masks.segment);
    for (int64_t m = begin; m < end; ++m) counts[m] = masks.segments[m] != segment;
  } else {
    std::fill(counts + begin, counts + end, 0);
  }
  if (masks.by_priority) count_above(masks.priorities, to_int32(masks.priority), begin, end, counts);
  if (masks.max_relative)
    count_above(masks.positions, to_int32(masks.position + *masks.max_relative), begin, end, counts);
  if (masks.min_relative)
    count_below(masks.positions, to_int32(masks.position + *masks.min_relative), begin, end, counts);
}

/// The smallest count, the first and last entry that have it, and their number.
struct Least {
  int32_t count = std::numeric_limits<int32_t>::max();
  int64_t first = 0, last = 0, entries = 0;
};
MTF_INLINE Least least_hidden(const int32_t* counts, int64_t begin, int64_t end) {
  int32_t least = std::numeric_limits<int32_t>::max();
  for (int64_t m = begin; m < end; ++m) least = std::min(least, counts[m]);
  int32_t first = std::numeric_limits<int32_t>::max(), last = 0, entries = 0;
  for (int64_t m = begin; m < end; ++m) {
    const auto here = static_cast<int32_t>(m);
    const bool taken = counts[m] == least;
    first = std::min(first, taken ? here : std::numeric_limits<int32_t>::max());
    last = std::max(last, taken ? here : 0);
    entries += taken;
  }
  return {least, first, last, entries};
}

MTF_INLINE void set_addend(const int32_t* counts, int32_t least, int64_t begin, int64_t end, float* addend) {
  for (int64_t m = begin; m < end; ++m) addend[m] = counts[m] == least ? 0.0f : -1e9f;
}

SegmentEntries entries_of(const int32_t* segments, int64_t segment, int64_t memory) {
  const auto id = static_cast<int32_t>(segment);
  const int32_t* const end = segments + memory;
  const int32_t* const first = std::find(segments, end, id);
  const int32_t* const after = std::find_if(first, end, [id](int32_t other) { return other != id; });
  if (std::find(after, end, id) != end) return {segments, segment, 0, 0};
  return {segments, segment, first - segments, after - segments};
}

}  // namespace

VisibleEntries visible_entries(const QueryMasks& masks, int64_t memory, int32_t* counts, float* addend,
                               SegmentEntries& last) {
  int64_t begin = 0, end = memory;
  bool by_id = false;
  if (masks.by_priority) {
    if (masks.priorities == nullptr) end = std::min(end, masks.priority + 1);
    by_id |= masks.priorities != nullptr;
  }
  if (masks.max_relative || masks.min_relative) {
    if (masks.positions == nullptr) {
      if (masks.max_relative) end = std::min(end, masks.position + *masks.max_relative + 1);
      if (masks.min_relative) begin = std::max(begin, masks.position + *masks.min_relative);
    }
    by_id |= masks.positions != nullptr;
  }
  if (!by_id && masks.by_segment) {
    if (last.segments != masks.segments || last.segment != masks.segment)
      last = entries_of(masks.segments, masks.segment, memory);
    const VisibleEntries visible{std::max(begin, last.begin), std::min(end, last.end)};
    if (visible.begin < visible.end) return visible;
  } else if (!by_id && begin < end) {
    return {begin, end};
  }
  // Entries outside [begin, end) are hidden by index. They matter only if all inside are hidden too.
  Least least;
  if (begin < end) {
    dispatched<count_masks>(masks, begin, end, counts);
    least = dispatched<least_hidden>(counts, begin, end);
  }
  if (least.count > 0) {
    dispatched<count_masks>(masks, 0, memory, counts);
    least = dispatched<least_hidden>(counts, 0, memory);
  }
  VisibleEntries visible{least.first, least.last + 1, nullptr, least.count};
  if (least.entries < visible.end - visible.begin) {
    dispatched<set_addend>(counts, least.count, visible.begin, visible.end, addend);
    visible.addend = addend;
  }
  return visible;
}

}  // namespace mtf
