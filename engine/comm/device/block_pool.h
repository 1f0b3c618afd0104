// Assigns blocks of device memory to the running collectives. It only keeps the sizes, so that the memory
// that collectives take is known without a device.
#pragma once

#include <cstdint>
#include <vector>

namespace mtf {

/// Collectives that run at the same time have different blocks; other collectives share blocks.
class BlockPool {
 public:
  static constexpr int kNone = -1;  ///< stands for a block of 0 bytes

  /// Returns the number of a block of at least `bytes`, which may be a new one of exactly that size; blocks
  /// count from 0. `last` is the block that the same collective had before (or kNone); it gets that one again
  /// if possible.
  int take(int64_t bytes, int last);
  void give_back(int block);
  /// Returns the size of all blocks together.
  int64_t bytes() const;

 private:
  struct Block {
    int64_t bytes = 0;
    bool is_taken = false;
  };
  int find_free(int64_t bytes, int last) const;

  std::vector<Block> blocks_;
};

}  // namespace mtf
