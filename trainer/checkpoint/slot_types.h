// Optimizer slots that a checkpoint has in another type than the run (precision.slots). Between float32 and bfloat16 elements
// are converted as everywhere (engine/core/convert_elements.h); codes of 8 bits need the largest magnitudes of their rows.
#pragma once

#include "engine/checkpoint/checkpoint.h"
#include "engine/runtime/variable_store.h"

namespace mtf {

/// Sets `slot` if it holds codes, or largest magnitudes of codes, and the checkpoint numbers, or the other way round; numbers
/// are rounded to the nearest code. False if the checkpoint lacks the slot or has it in a type that needs no codes.
bool restore_slot_codes(CheckpointReader& reader, const Variable& slot, VariableStore& variables);

}  // namespace mtf
