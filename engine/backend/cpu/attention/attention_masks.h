// Computes which entries of the memory a query sees (engine/ops/attention.h). They nearly always form one
// interval, which is found without looking at each entry where a mask depends only on the index.
#pragma once

#include <cstdint>
#include <optional>

namespace mtf {

/// The masks of one query. The ids of the memory have shape [memory]; null means that the index is the id.
struct QueryMasks {
  bool by_segment = false, by_priority = false;
  int64_t segment = 0, priority = 0, position = 0;
  const int32_t *segments = nullptr, *priorities = nullptr, *positions = nullptr;
  std::optional<int64_t> min_relative, max_relative;
};

/// The visible entries: all of [begin, end), or those where `addend` (indexed by entry of the memory) is 0
/// and not -1e9. The other entries have weight 0.
struct VisibleEntries {
  int64_t begin = 0, end = 0;
  const float* addend = nullptr;
  /// If above 0, every entry is hidden, and these are hidden by the fewest masks, namely so many: their
  /// logits vanish beside -1e9 times this number.
  int32_t hidden_by = 0;
};

/// The entries of a segment of the memory: all of [begin, end). It is empty if the memory has none of them, or not one after
/// the other.
struct SegmentEntries {
  const int32_t* segments = nullptr;  ///< the ids of the memory; null: there is no segment yet
  int64_t segment = 0;
  int64_t begin = 0, end = 0;
};

/// `counts` and `addend` are scratch arrays of `memory` elements each. `last` is the segment of the query before, which is
/// not looked for again, and becomes that of this query.
VisibleEntries visible_entries(const QueryMasks& masks, int64_t memory, int32_t* counts, float* addend,
                               SegmentEntries& last);

}  // namespace mtf
