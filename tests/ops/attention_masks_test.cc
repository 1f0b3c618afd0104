// Tests which entries of the memory queries see, one query after the other, against masks that are counted entry by entry.
#include "engine/backend/cpu/attention/attention_masks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace mtf {
namespace {

/// The number of masks that hide each entry from the query.
std::vector<int> hidden_by(const QueryMasks& masks, int64_t memory) {
  std::vector<int> counts;
  for (int64_t m = 0; m < memory; ++m) {
    const int64_t priority = masks.priorities ? masks.priorities[m] : m,
                  position = masks.positions ? masks.positions[m] : m;
    counts.push_back((masks.by_segment && masks.segments[m] != masks.segment) +
                     (masks.by_priority && priority > masks.priority) +
                     (masks.max_relative && position > masks.position + *masks.max_relative) +
                     (masks.min_relative && position < masks.position + *masks.min_relative));
  }
  return counts;
}

/// The entries that the least number of masks hides.
std::vector<int64_t> seen(const std::vector<int>& counts) {
  std::vector<int64_t> entries;
  const int least = *std::ranges::min_element(counts);
  for (size_t m = 0; m < counts.size(); ++m) {
    if (counts[m] == least) entries.push_back(static_cast<int64_t>(m));
  }
  return entries;
}

std::vector<int64_t> seen(const VisibleEntries& visible) {
  std::vector<int64_t> entries;
  for (int64_t m = visible.begin; m < visible.end; ++m) {
    if (visible.addend == nullptr || visible.addend[m] == 0) entries.push_back(m);
  }
  return entries;
}

TEST(VisibleEntries, AreThoseThatTheFewestMasksHideWhateverTheQueryBefore) {
  std::mt19937 random(1);
  const auto draw = [&](int from, int to) { return std::uniform_int_distribution(from, to)(random); };
  for (int round = 0; round < 200; ++round) {
    const int memory = draw(1, 40);
    std::vector<int32_t> segments, priorities, positions;
    const bool is_packed = draw(0, 2) > 0;  // else segments are mixed
    for (int m = 0; m < memory; ++m) {
      segments.push_back(is_packed ? 1 + m * 3 / memory : draw(1, 3));
      priorities.push_back(draw(0, memory));
      positions.push_back(draw(0, memory));
    }
    QueryMasks masks;
    masks.by_segment = draw(0, 3) > 0;
    masks.by_priority = draw(0, 1) > 0;
    masks.segments = segments.data();
    if (draw(0, 3) == 0) masks.priorities = priorities.data();
    if (draw(0, 3) == 0) masks.positions = positions.data();
    if (draw(0, 1) > 0) masks.max_relative = draw(-3, 5);
    if (draw(0, 2) == 0) masks.min_relative = draw(-9, -3);
    SegmentEntries last;
    std::vector<int32_t> counts(segments.size());
    std::vector<float> addend(segments.size());
    for (int query = 0; query < 12; ++query) {
      if (query % 3 == 0) masks.segment = draw(1, 4);  // 4: there is no such segment
      masks.priority = draw(0, memory);
      masks.position = draw(0, memory);
      const VisibleEntries visible = visible_entries(masks, memory, counts.data(), addend.data(), last);
      const std::vector<int> hidden = hidden_by(masks, memory);
      EXPECT_EQ(seen(visible), seen(hidden)) << "round " << round << ", query " << query;
      EXPECT_EQ(visible.hidden_by, *std::ranges::min_element(hidden));
    }
  }
}

}  // namespace
}  // namespace mtf
