// Models with fewer blocks: what equal blocks cost is proportional to their number, so that two small models tell what a
// deep one costs.
//
//   if (const std::optional<int64_t> depth = depth_of(config.model)) shallow = with_depth(config.model, 2);
#pragma once

#include <cstdint>
#include <optional>

#include "engine/config/node.h"

namespace mtf {

/// The number that all keys `num_layers` of section `model` have, in all stacks of blocks; nothing without such keys, and
/// where they differ or depend on what is resolved later.
std::optional<int64_t> depth_of(const config::Node& model);
/// The section with `depth` in place of these numbers.
config::Node with_depth(const config::Node& model, int64_t depth);

}  // namespace mtf
