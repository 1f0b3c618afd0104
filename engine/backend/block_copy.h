// BlockCopy describes copies of blocks of memory that lie at equal distances.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace mtf {

/// Copies rows * runs runs of `length` bytes: run r of row i goes from from + i * from_row + r * from_run to
/// to + i * to_row + r * to_run.
struct BlockCopy {
  const std::byte* from = nullptr;  ///< null: zeros
  std::byte* to = nullptr;
  int64_t rows = 1, runs = 1, length = 0;
  int64_t from_row = 0, to_row = 0;
  int64_t from_run = 0, to_run = 0;
};

/// Runs the copies, within the memory of the host.
void copy_blocks_on_host(std::span<const BlockCopy> copies);

}  // namespace mtf
