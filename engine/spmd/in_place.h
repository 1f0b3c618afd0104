// Results that take over the memory of an operand whose last reader they are; variables that are updated
// where they stand.
#pragma once

#include "engine/spmd/program.h"

namespace mtf {

/// Sets Value::alias where Operation::in_place allows it, and removes copies into variables whose new value
/// can be made in the variable's own memory (the guard of the copy then guards the instruction that makes
/// it).
Program reuse_memory(Program program);

}  // namespace mtf
