// A stable sort of small numbers, by digits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/backend/cuda/device/device_kernel.h"

namespace mtf::cuda {

struct SortedKeys {
  uint32_t* keys;
  uint32_t* places;  ///< where each key stood; equal keys keep their order
};

/// Launches for keys 0 .. largest. Digit by digit from the lowest, each in three launches: blocks count the
/// digits of their tiles, the counts are added up, and blocks put keys where those before them end.
class KeySort {
 public:
  KeySort(int64_t count, int64_t largest);

  size_t scratch_bytes() const;
  /// Where the keys are to be written before the sort, in its scratch memory.
  uint32_t* keys(std::byte* scratch) const;
  SortedKeys operator()(const Launcher& launch, std::byte* scratch) const;

 private:
  int64_t aligned() const { return (count_ + 63) / 64 * 64; }

  int64_t count_, tiles_;
  int passes_, bits_;  ///< bits: of a digit
};

}  // namespace mtf::cuda
