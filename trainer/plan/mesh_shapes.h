// The meshes that a number of positions allows.
#pragma once

#include <cstdint>
#include <vector>

namespace mtf {

/// Sizes of at least 2 whose product is `positions`, the largest first or in all orders; with at most `most` of them, those
/// with the fewest first. One position has one mesh, of size 1.
std::vector<std::vector<int64_t>> mesh_shapes(int64_t positions, int64_t most, bool in_all_orders = false);

}  // namespace mtf
