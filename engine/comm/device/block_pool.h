// Which blocks of memory of a device the collectives that are under way have, without the memory: how much
// they take is known without a device, too.
#pragma once

#include <cstdint>
#include <vector>

namespace mtf {

/// Those that are under way at the same time have different blocks, others share them.
class BlockPool {
 public:
  static constexpr int kNone = -1;  ///< the block of 0 bytes

  /// A block of at least `bytes`, which may be a new one, of just that size; they count from 0. `last`: what
  /// the same collective had before (or kNone), which it gets again where it can.
  int take(int64_t bytes, int last);
  void give_back(int block);
  /// Of all blocks.
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
