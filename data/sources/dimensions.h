// Names for the dimensions of examples in files that have sizes alone.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/config/types.h"
#include "engine/core/shape.h"

namespace mtf {

/// Returns the shape of one example of these sizes. Without `names` they are [inputs], [rows, cols], [rows, cols,
/// channels] or [rows, cols, depth, channels]. `what` begins messages: "the images of FILE". Throws Error (kData): at
/// `mark` when there are other names than sizes, or no usual names; at the names when one is used twice or for the batch.
Shape named_shape(std::span<const int64_t> sizes, const std::vector<config::Name>& names, const Mark& mark,
                  const std::string& what);

}  // namespace mtf
