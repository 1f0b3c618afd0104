// What the steps of a run computed and sent, for the end of its log.
#pragma once

#include <string>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/runtime/executor.h"

namespace mtf {

/// Returns lines with the means over all positions and processes; none if nothing has run. Every process must call
/// it. Throws Error (kPeerLost).
std::vector<std::string> counter_lines(const Counters& own, Communicator& communicator);

}  // namespace mtf
