// Finds changes to the configuration with which a run would fit into memory, by planning the run with each of
// them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/memory/memory_check.h"

namespace mtf {

/// Returns changes, such as "`train.microbatches: 4`", with each of which alone the run is within the limits, also in the
/// process that needs most; none if no change that was tried suffices. It plans at most a few dozen programs.
std::vector<std::string> memory_advice(const Session& session, const std::vector<const Program*>& programs,
                                       const MemoryUse& use, const MemoryLimits& limits);

}  // namespace mtf
