// What an optimizer does with each variable, done for many at once. For devices that start one kernel for
// all: Grouped.
#pragma once

#include "engine/spmd/program.h"

namespace mtf {

/// Largest number of bytes, on one position, of values that have memory of their own and that a group makes
/// earlier than its members would.
inline constexpr int64_t kGroupBytes = int64_t{1} << 20;

/// Puts operations of one kind of the update, on different variables, into one where the first of them is:
///   %a/new = adam_update(%a, ..), %b/new = adam_update(%b, ..)   into  %a/new, %b/new = grouped(%a, .., %b,
///   ..)
/// What only its later members need comes before it, too. The last pass: memory is assigned already.
Program group_updates(Program program);

}  // namespace mtf
