// DeviceMemoryState says what memory a run may plan with on a GPU. Sizes are in bytes.
#pragma once

#include <cstdint>
#include <span>

namespace mtf {

struct DeviceMemoryState {
  int64_t total = 0;
  /// What nobody has taken: neither allocations of any process nor contexts and the libraries that are loaded.
  int64_t free = 0;
  /// Estimates of what is taken later without an allocation of the run: by the driver for kernels that are
  /// loaded when they first run and for recorded steps; by the library of collectives for its buffers, in a
  /// process of several, and besides for each other process to which messages are sent directly.
  int64_t driver = 0;
  int64_t collectives = 0;
  int64_t collectives_per_peer = 0;
  /// Host memory of driver, libraries and pinned buffers, an estimate.
  int64_t host = 0;
  /// Allocations of at least half a block take whole blocks; smaller ones share blocks.
  int64_t block = 1;

  /// Returns what allocations of these sizes take together.
  int64_t taken(std::span<const int64_t> sizes) const {
    const auto blocks = [this](int64_t bytes) { return (bytes + block - 1) / block * block; };
    int64_t large = 0, small = 0;
    for (const int64_t size : sizes)
      2 * size >= block ? large += blocks(size) : small += (size + 511) / 512 * 512;
    return large + blocks(small);
  }
};

}  // namespace mtf
