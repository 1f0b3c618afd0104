#include "engine/backend/cuda/collectives/scratch_blocks.h"

#include <algorithm>

namespace mtf::cuda {

/// `last`, or the smallest that is large enough.
ScratchBlocks::Block* ScratchBlocks::find_free(int64_t bytes, const std::byte* last) {
  Block* best = nullptr;
  for (Block& block : blocks_) {
    if (block.is_taken || block.bytes < bytes) continue;
    if (block.memory->data() == last) return &block;
    if (best == nullptr || block.bytes < best->bytes) best = &block;
  }
  return best;
}

std::byte* ScratchBlocks::take(int64_t bytes, std::byte* last) {
  if (bytes == 0) return nullptr;
  Block* block = find_free(bytes, last);
  if (block == nullptr) block = &blocks_.emplace_back(Block{backend_.allocate(bytes), bytes, false});
  block->is_taken = true;
  return block->memory->data();
}

void ScratchBlocks::give_back(const std::byte* data) {
  for (Block& block : blocks_) {
    if (block.memory->data() == data) block.is_taken = false;
  }
}

}  // namespace mtf::cuda
