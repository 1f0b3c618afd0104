// Memory of a device for collectives, from the start of each until its end.
#pragma once

#include <memory>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/comm/device/block_pool.h"

namespace mtf::cuda {

/// The blocks of a BlockPool. One that is new is allocated.
class ScratchBlocks {
 public:
  explicit ScratchBlocks(Backend& backend) : backend_(backend) {}
  ScratchBlocks(const ScratchBlocks&) = delete;
  ScratchBlocks& operator=(const ScratchBlocks&) = delete;

  int take(int64_t bytes, int last);
  void give_back(int block) { pool_.give_back(block); }
  /// BlockPool::kNone: null.
  std::byte* data(int block) const;

 private:
  Backend& backend_;
  BlockPool pool_;
  std::vector<std::unique_ptr<DeviceMemory>> memory_;  ///< by block
};

}  // namespace mtf::cuda
