// Copies of blocks of memory, for operations, moves and collectives that only move data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/backend/cuda/device/device_kernel.h"

namespace mtf::cuda {

/// Copies rows * runs runs of `length` bytes: run r of row i goes from from + i * from_row + r * from_run to
/// to + i * to_row + r * to_run.
struct BlockCopy {
  const std::byte* from = nullptr;  ///< null: zeros
  std::byte* to = nullptr;
  int64_t rows = 1, runs = 1, length = 0;
  int64_t from_row = 0, to_row = 0;
  int64_t from_run = 0, to_run = 0;
};

inline int64_t bytes_of(const LocalTensor& tensor) { return bytes_of(tensor.local, tensor.dtype); }
/// The bytes between adjacent entries of an axis.
inline int64_t entry_bytes(const LocalTensor& tensor, int axis) {
  return tensor.local.strides()[axis] * static_cast<int64_t>(size_of(tensor.dtype));
}

/// Runs the copies in any order: none may read or write what another one writes.
void copy_blocks(const Launcher& launch, std::span<const BlockCopy> copies);

}  // namespace mtf::cuda
