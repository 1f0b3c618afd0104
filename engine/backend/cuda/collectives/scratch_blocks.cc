#include "engine/backend/cuda/collectives/scratch_blocks.h"

namespace mtf::cuda {

int ScratchBlocks::take(int64_t bytes, int last) {
  const int block = pool_.take(bytes, last);
  if (block == std::ssize(memory_)) memory_.push_back(backend_.allocate(bytes));
  return block;
}

std::byte* ScratchBlocks::data(int block) const {
  return block == BlockPool::kNone ? nullptr : memory_[static_cast<size_t>(block)]->data();
}

}  // namespace mtf::cuda
