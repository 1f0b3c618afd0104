// How optimizer slots are stored in 8 bits (precision.slots: int8): the variable of a slot holds codes (uint8 for means of
// squares, int8 for others), and a second one, NAME/largest, the largest magnitude of each row, in float32
// (engine/ops/slot_code.h). Slots without rows that are long enough stay float32, and those that 8 bits would spoil are
// bfloat16.
#pragma once

#include <cstdint>
#include <string>

#include "engine/core/shape.h"
#include "engine/core/slot_code.h"

namespace mtf {

/// Rows that are shorter stay float32: the largest magnitude takes 4 bytes of its own, and vectors are a single row.
inline constexpr int64_t kLeastSlotRow = 16;

inline bool has_slot_blocks(const Shape& shape) {
  return shape.rank() > 1 && shape[shape.rank() - 1].size >= kLeastSlotRow;
}

inline constexpr const char* kSlotBlocksSuffix = "/largest";
inline std::string slot_blocks_name(const std::string& slot) { return slot + kSlotBlocksSuffix; }

}  // namespace mtf
