// Gives errors that do not know where they are a place.
#pragma once

#include "engine/base/error.h"

namespace mtf {

/// Returns `error` with `mark` as the place of its problems that have none.
Error placed_at(const Error& error, const Mark& mark);

}  // namespace mtf
