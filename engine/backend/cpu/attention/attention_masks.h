// Which entries of the memory a query sees (engine/ops/attention.h). What it sees is nearly always one
// interval, found without looking at each entry where a mask is by index.
#pragma once

#include <cstdint>
#include <optional>

namespace mtf {

/// The masks of one query. Ids of the memory: [memory]; null: the index.
struct QueryMasks {
  bool by_segment = false, by_priority = false;
  int64_t segment = 0, priority = 0, position = 0;
  const int32_t *segments = nullptr, *priorities = nullptr, *positions = nullptr;
  std::optional<int64_t> min_relative, max_relative;
};

/// Entries [begin, end), all of them or those where `addend` (by entry of the memory) is 0 and not -1e9. The
/// others have weight 0.
struct VisibleEntries {
  int64_t begin = 0, end = 0;
  const float* addend = nullptr;
  /// Every entry is hidden, these by the fewest masks: their logits vanish beside -1e9 times this number.
  int32_t hidden_by = 0;
};

/// `counts` and `addend`: scratch, `memory` elements each.
VisibleEntries visible_entries(const QueryMasks& masks, int64_t memory, int32_t* counts, float* addend);

}  // namespace mtf
