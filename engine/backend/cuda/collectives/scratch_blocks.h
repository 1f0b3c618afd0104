// Device memory for collectives, each of which holds a block from its start until its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/comm/device/block_pool.h"

namespace mtf::cuda {

/// The memory of the blocks of a BlockPool; new blocks are allocated.
class ScratchBlocks {
 public:
  explicit ScratchBlocks(Backend& backend) : backend_(backend) {}
  ScratchBlocks(const ScratchBlocks&) = delete;
  ScratchBlocks& operator=(const ScratchBlocks&) = delete;

  int take(int64_t bytes, int last);
  void give_back(int block) { pool_.give_back(block); }
  /// The memory of a block; null for BlockPool::kNone.
  std::byte* data(int block) const;

 private:
  Backend& backend_;
  BlockPool pool_;
  std::vector<std::unique_ptr<DeviceMemory>> memory_;  ///< by block
};

}  // namespace mtf::cuda
