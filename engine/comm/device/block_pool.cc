#include "engine/comm/device/block_pool.h"

namespace mtf {

/// Returns `last` if it is free and large enough, otherwise the smallest free block that is, or kNone.
int BlockPool::find_free(int64_t bytes, int last) const {
  int best = kNone;
  for (int i = 0; i < static_cast<int>(blocks_.size()); ++i) {
    const Block& block = blocks_[static_cast<size_t>(i)];
    if (block.is_taken || block.bytes < bytes) continue;
    if (i == last) return i;
    if (best == kNone || block.bytes < blocks_[static_cast<size_t>(best)].bytes) best = i;
  }
  return best;
}

int BlockPool::take(int64_t bytes, int last) {
  if (bytes == 0) return kNone;
  int block = find_free(bytes, last);
  if (block == kNone) {
    block = static_cast<int>(blocks_.size());
    blocks_.push_back({bytes, false});
  }
  blocks_[static_cast<size_t>(block)].is_taken = true;
  return block;
}

void BlockPool::give_back(int block) {
  if (block != kNone) blocks_[static_cast<size_t>(block)].is_taken = false;
}

int64_t BlockPool::bytes() const {
  int64_t bytes = 0;
  for (const Block& block : blocks_) bytes += block.bytes;
  return bytes;
}

}  // namespace mtf
