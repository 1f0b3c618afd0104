// A stable radix sort of small numbers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/backend/cuda/device/device_kernel.h"

namespace mtf::cuda {

struct SortedKeys {
  uint32_t* keys;
  uint32_t* places;  ///< original index of each key; equal keys keep their order
};

/// Sorts keys in 0 .. largest, digit by digit from the lowest, each in three launches: blocks count the
/// digits of their tiles, the counts are summed, and blocks write the keys to their new places.
class KeySort {
 public:
  KeySort(int64_t count, int64_t largest);

  size_t scratch_bytes() const;
  /// The part of the scratch memory into which the caller writes the keys before the sort.
  uint32_t* keys(std::byte* scratch) const;
  SortedKeys operator()(const Launcher& launch, std::byte* scratch) const;

 private:
  int64_t aligned() const { return (count_ + 63) / 64 * 64; }

  int64_t count_, tiles_;
  int passes_, bits_;  ///< bits_: bits of a digit
};

}  // namespace mtf::cuda
