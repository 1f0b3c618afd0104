// Memory of a device for collectives, from the start of each until its end. Those that are under way at the
// same time have different blocks, others share them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/backend/backend.h"

namespace mtf::cuda {

class ScratchBlocks {
 public:
  explicit ScratchBlocks(Backend& backend) : backend_(backend) {}
  ScratchBlocks(const ScratchBlocks&) = delete;
  ScratchBlocks& operator=(const ScratchBlocks&) = delete;

  /// `last`: what the same collective had before (null: nothing), which it gets again. A first time may
  /// allocate. 0 bytes: null.
  std::byte* take(int64_t bytes, std::byte* last);
  void give_back(const std::byte* block);

 private:
  struct Block {
    std::unique_ptr<DeviceMemory> memory;
    int64_t bytes;
    bool is_taken;
  };
  Block* find_free(int64_t bytes, const std::byte* last);

  Backend& backend_;
  std::vector<Block> blocks_;
};

}  // namespace mtf::cuda
