// Copies of blocks of memory, for operations, moves and collectives that only move data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/backend/block_copy.h"
#include "engine/backend/cuda/device/device_kernel.h"

namespace mtf::cuda {

inline int64_t bytes_of(const LocalTensor& tensor) { return bytes_of(tensor.local, tensor.dtype); }
/// The bytes between adjacent entries of an axis.
inline int64_t entry_bytes(const LocalTensor& tensor, int axis) {
  return tensor.local.strides()[axis] * static_cast<int64_t>(size_of(tensor.dtype));
}

/// Runs the copies in any order: none may read or write what another one writes.
void copy_blocks(const Launcher& launch, std::span<const BlockCopy> copies);

}  // namespace mtf::cuda
