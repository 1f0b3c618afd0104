// Computes which elements a shift along a split dimension moves between neighbours.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/comm/communicator.h"

namespace mtf {

/// The transfers that coordinate `coordinate` receives when a dimension of `parts` parts of `part` entries
/// each is shifted by `offset`: y[i] = x[i - offset], with zeros or wrapped-around entries from outside.
/// Entries that no transfer covers are zero.
std::vector<Transfer> shift_transfers(int64_t parts, int64_t part, int64_t offset, bool wrap,
                                      int64_t coordinate);

/// The number of entries that come from other coordinates, summed over all coordinates.
int64_t exchanged_entries(int64_t parts, int64_t part, int64_t offset, bool wrap);

}  // namespace mtf
