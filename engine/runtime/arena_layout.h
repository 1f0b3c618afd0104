// Places in one arena for values whose lifetimes are known.
//
//   std::vector<Region> regions{{.id = 7, .bytes = 4096, .begin = 0, .end = 3}, ...};
//   const int64_t bytes = place(regions);      // sets the offsets; n log n steps for n regions
#pragma once

#include <cstdint>
#include <vector>

namespace mtf {

/// Memory that is in use from moment `begin` to moment `end`, both included.
struct Region {
  int64_t id = 0;
  int64_t bytes = 0;
  int64_t begin = 0, end = 0;
  int64_t offset = 0;
};

/// Sets the offsets, largest regions first (of equal ones the first to begin, which leaves no gaps, then the
/// lowest id), each at the lowest place that is free during its lifetime. The regions come out in that order.
/// Returns the size of the arena.
int64_t place(std::vector<Region>& regions);

}  // namespace mtf
