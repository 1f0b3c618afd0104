// Assigns offsets in one arena to memory regions whose lifetimes are known.
//
//   std::vector<Region> regions{{.id = 7, .bytes = 4096, .begin = 0, .end = 3}, ...};
//   const int64_t bytes = place(regions);      // sets the offsets in about n log n steps
#pragma once

#include <cstdint>
#include <vector>

namespace mtf {

/// A memory region that is in use from moment `begin` to moment `end`, both included. Moments are less than 2^31.
struct Region {
  int64_t id = 0;
  int64_t bytes = 0;
  int64_t begin = 0, end = 0;
  int64_t offset = 0;
};

/// Sets the offsets and returns the size of the arena. Regions are placed by size, largest first; equal ones
/// by `begin`, which leaves no gaps, then by `id`. Each gets the lowest offset that is free during its
/// lifetime. Leaves `regions` sorted in that order.
int64_t place(std::vector<Region>& regions);

}  // namespace mtf
