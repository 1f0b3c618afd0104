// Changes to the configuration that would make a run fit into memory, each found by planning the run with it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/memory/need.h"

namespace mtf {

/// Each change alone brings the need down to `limit` bytes: "`train.microbatches: 4`". Empty: none of those
/// that are tried does. Plans a few dozen programs at most.
std::vector<std::string> memory_advice(const Session& session, const std::vector<const Program*>& programs,
                                       const MemoryUse& use, int64_t limit);

}  // namespace mtf
