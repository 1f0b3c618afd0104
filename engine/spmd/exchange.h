// Which elements a shift along a split dimension moves between neighbours.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/comm/communicator.h"

namespace mtf {

/// What coordinate `coordinate` of `parts` receives when a dimension of parts * part entries is shifted by
/// `offset` (y[i] = x[i - offset], zero or wrapped around outside). Entries that no transfer covers are zero.
std::vector<Transfer> shift_transfers(int64_t parts, int64_t part, int64_t offset, bool wrap,
                                      int64_t coordinate);

/// Entries that come from other coordinates, summed over all coordinates.
int64_t exchanged_entries(int64_t parts, int64_t part, int64_t offset, bool wrap);

}  // namespace mtf
